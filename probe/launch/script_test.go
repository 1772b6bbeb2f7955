// SPDX-License-Identifier: Apache-2.0

package launch

import "testing"

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
