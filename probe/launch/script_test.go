// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/probe/machine"
)

func TestCodeDigest(t *testing.T) {
	const script = "import torch\n\nif torch:\n    run()\n"
	for name, text := range map[string]string{
		"comments":       "#!/usr/bin/python3\nimport torch\n# why\nif torch:\n    # how\n    run()\n",
		"blanks":         "import torch  \n\n\nif torch:\n\n    run()\n\n",
		"line ends":      "import torch\r\nif torch:\r\n    run()\r\n",
		"without an end": "import torch\nif torch:\n    run()",
	} {
		if codeDigest([]byte(text)) != codeDigest([]byte(script)) {
			t.Errorf("%s: other code", name)
		}
	}
	for _, text := range []string{"", "import torch\n\nif torch:\n    stop()\n", "import torch\n\nif torch:\n  run()\n", "import torch\nrun()\n"} {
		if codeDigest([]byte(text)) == codeDigest([]byte(script)) {
			t.Errorf("%q is the same code", text)
		}
	}
}

func TestMakesGloo(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{`dist.init_process_group("nccl")`, false},
		{`dist.init_process_group("gloo")`, true},
		{`dist.init_process_group(backend='gloo', timeout=t)`, true},
		{`dist.init_process_group("cpu:gloo,cuda:nccl")`, true},
		{`deepspeed.init_distributed("cuda:nccl,cpu:gloo")`, true},
		{`cpu = dist.new_group(backend="gloo")`, true},
		{"cpu = dist.new_group(\n    ranks=[0, 1],\n    backend=\"gloo\",\n)", true},
		{`backend = "nccl" if torch.cuda.is_available() else "gloo"`, false},
		{`dist.new_group(backend="nccl" if cuda else "gloo")`, false},
		{"if cuda: dist.init_process_group('nccl')\nelse: dist.init_process_group('gloo')", false},
		{`# dist.new_group(backend="gloo")`, false},
		{`print("gloo is slow")`, false},
		{`group = dist.new_group(ranks); name = "gloo"`, false},
		{``, false},
	} {
		if got := makesGloo([]byte("import torch\n" + c.text + "\n")); got != c.want {
			t.Errorf("%s makes a group of gloo: %v, want %v", c.text, got, c.want)
		}
	}
}

func TestUnset(t *testing.T) {
	set := func(name string) (string, bool) { return "", name == "SET" }
	for _, c := range []struct {
		text, want string // want has a "!" after a name that every run reads
	}{
		{`key = os.environ["KEY"]`, "KEY!"},
		{`wandb.login(key=os.environ['KEY'])`, "KEY!"},
		{"from os import environ\na, b = environ['A'], environ['B']", "A! B!"},
		{"def main():\n    key = os.environ['KEY']\n", "KEY"},
		{"try:\n    key = os.environ['KEY']\nexcept KeyError:\n    pass\n", "KEY"},
		{`key = os.environ["KEY"] if cuda else None`, "KEY"},
		{`key = os.environ["SET"]`, ""},
		{"os.environ['KEY'] = '1'\nprint(os.environ['KEY'])\n", ""},
		{`same = os.environ["KEY"] == "1"`, "KEY!"},
		{"os.environ.setdefault('KEY', '1')\nprint(os.environ['KEY'])\n", ""},
		{"if 'KEY' in os.environ:\n    print(os.environ['KEY'])\n", ""},
		{"load_dotenv()\nkey = os.environ['KEY']\n", ""},
		{"sys.exit(0)\nkey = os.environ['KEY']\n", "KEY"},
		{`key = os.environ.get("KEY")`, ""},
		{`# os.environ["KEY"]`, ""},
		{`print("set os.environ['KEY'] first")`, ""},
		{"\"\"\"\nset os.environ['KEY'] first\n\"\"\"\n", ""},
	} {
		var got []string
		for _, u := range unset("import os\n"+c.text, set) {
			if u.Always {
				u.Name += "!"
			}
			got = append(got, u.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestWorkers(t *testing.T) {
	for text, want := range map[string]string{
		"DataLoader(data, num_workers=4)":                            "4",
		"DataLoader(data,\n    num_workers = 12,\n)":                 "12",
		"DataLoader(data, num_workers=0)":                            "",
		"DataLoader(data)":                                           "",
		"DataLoader(data, num_workers=args.num_workers)":             facts.WorkersAsTold,
		"# DataLoader(data, num_workers=4)":                          "",
		"pool(num_workers=4)":                                        "",
		"DataLoader(a, num_workers=0)\nDataLoader(b, num_workers=2)": "2",
	} {
		if got := workers(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWrites(t *testing.T) {
	for text, want := range map[string]bool{
		"sys.stdout.write('trained')\nopen('expected').read()\njson.dumps({})\nfaulthandler.dump_traceback_later(9)": false,
		"open('log.txt', 'w')":          true,
		"open('log.txt', mode=\"a\")":   true,
		"open(path, how)":               true,
		"torch.save(model, 'model.pt')": true,
		"engine.save_checkpoint('out')": true,
		"os.makedirs('out')":            true,
		"SummaryWriter()":               true,
		"Trainer(model)":                true,
		"open('data.json', 'r').read()": false,
		"torch.load('model.pt')":        false,
	} {
		if got := writes.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		".netrc": "machine api.wandb.ai login user password 0123", ".comet.config": "", ".aws/credentials": "[default]",
	} {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for _, s := range services {
		t.Setenv(s.variable, "")
	}
	t.Setenv("OPENAI_API_KEY", "secret")
	want := []facts.Token{
		{Variable: "WANDB_API_KEY", From: home + "/.netrc"},
		{Variable: "AWS_SECRET_ACCESS_KEY", From: home + "/.aws/credentials"}, {Variable: "OPENAI_API_KEY", From: "environment"},
	}
	if got := tokens(machine.Options{}, home); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
}
