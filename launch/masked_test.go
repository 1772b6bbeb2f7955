package launch

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestMasked(t *testing.T) {
	for typed, want := range map[string]string{
		"":                                        "",
		"--hf_token|hunter2|--lr|1e-4":            "--hf_token|…|--lr|1e-4",
		"--hf-token=hunter2":                      "--hf-token=…",
		"-token|hunter2":                          "-token|…",
		"--api_key|":                              "--api_key|…",
		"--api_key=|x":                            "--api_key=|x",
		"--use_auth_token|--lr|1e-4":              "--use_auth_token|--lr|1e-4",
		"--use_auth_token=True|data.txt":          "--use_auth_token=…|data.txt",
		"token|x":                                 "token|x",
		"-x|WANDB_API_KEY=hunter2|-x|NCCL_DEBUG":  "-x|WANDB_API_KEY=…|-x|NCCL_DEBUG",
		"-genv|HF_TOKEN|hunter2|-env|NCCL_X|1":    "-genv|HF_TOKEN|…|-env|NCCL_X|1",
		"--export=ALL,HF_TOKEN=hunter2,B=hunter2": "--export=ALL,HF_TOKEN=…",
		"logger.wandb.api_key=hunter2":            "logger.wandb.api_key=…",
		"--uri=https://me:hunter2@host/x?a=1":     "--uri=https://…@host/x?a=1",
		"https://host/x?a=1&token=hunter2":        "https://host/x?a=1&token=…",
		"--header|Authorization: Bearer hunter2":  "--header|Authorization:…",
		`{"lr": 1, "api_key": "hunter2"}`:         `{"lr": 1, "api_key":…`,
		"--max_tokens|512|--tokenizer=gpt2|k=v=w": "--max_tokens|512|--tokenizer=gpt2|k=v=w",
	} {
		if got := strings.Join(masked(strings.Split(typed, "|")), "|"); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
	if got := masked(nil); got != nil {
		t.Errorf("of no arguments: %q", got)
	}
}

// No launcher's prediction, and no note in it, tells a secret of the command line.
func TestPredictionTellsNoSecret(t *testing.T) {
	for _, launcher := range LauncherNames() {
		for _, release := range []string{"", "0.10.2"} {
			o := job(launcher, func(o *Options) {
				o.DeepSpeed, o.LauncherArgs = release, "--mca btl_tcp_if_include eth1 -x WANDB_API_KEY=hunter2"
				o.Arguments = []string{"--hf_token", "/srv/hunter2.json", "--lr", "1 2", "--pass=hunter2 $x", "--db_password", `"hunter2 $HOME"`}
			})
			p, err := Predict(o, seen())
			if err != nil || p.Command == nil {
				t.Fatalf("%s %s: %v, %v", launcher, release, p.Command, err)
			}
			text, err := json.Marshal(p)
			if err != nil || strings.Contains(string(text), "hunter2") {
				t.Errorf("%s %s: %s, %v", launcher, release, text, err)
			}
			if want := []string{"--hf_token", "…", "--lr", "1 2", "--pass=…", "--db_password", "…"}; !slices.Equal(p.Arguments, want) {
				t.Errorf("%s %s: %q, want %q", launcher, release, p.Arguments, want)
			}
		}
	}
}
