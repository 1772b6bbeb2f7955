// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for typed, want := range map[string]string{
		"":                                     "",
		"--hf_token|hunter2|--lr|1e-4":         "--hf_token|…|--lr|1e-4",
		"--hf-token=hunter2":                   "--hf-token=…",
		"--pat|hunter2|-k|hunter2":             "--pat|…|-k|…",
		"-k|50|-k|https://host/x|-u|1000:1000": "-k|50|-k|https://host/x|-u|1000:1000",
		"X-Api-Key:|hunter2|Bearer|hunter2hunter2": "X-Api-Key:|…|Bearer|…",
		"sshpass|-p|hunter2|ssh|-p|2222":           "sshpass|-p|…|ssh|-p|2222",
		"sshpass|-phunter2":                        "sshpass|-p…",
		"-token|hunter2":                           "-token|…",
		"--api_key|":                               "--api_key|…",
		"--api_key=|x":                             "--api_key=|…",
		"--use_auth_token|--lr|1e-4":               "--use_auth_token|--lr|1e-4",
		"--use_auth_token=True|data.txt":           "--use_auth_token=…|data.txt",
		"token|x":                                  "token|x",
		"-x|WANDB_API_KEY=hunter2|-x|NCCL_DEBUG":   "-x|WANDB_API_KEY=…|-x|NCCL_DEBUG",
		"-genv|HF_TOKEN|hunter2|-env|NCCL_X|1":     "-genv|HF_TOKEN|…|-env|NCCL_X|1",
		"--export=ALL,HF_TOKEN=hunter2,B=hunter2":  "--export=ALL,HF_TOKEN=…",
		"logger.wandb.api_key=hunter2":             "logger.wandb.api_key=…",
		"--uri=https://me:hunter2@host/x?a=1":      "--uri=https://…@host/x?a=1",
		"https://host/x?a=1&token=hunter2":         "https://host/x?a=1&token=…",
		"--header|Authorization: Bearer hunter2":   "--header|Authorization:…",
		`{"lr": 1, "api_key": "hunter2"}`:          `{"lr": 1, "api_key":…`,
		"--max_tokens|512|--tokenizer=gpt2|k=v=w":  "--max_tokens|512|--tokenizer=gpt2|k=v=w",
	} {
		if got := strings.Join(Arguments(strings.Split(typed, "|")), "|"); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
	if got := Arguments(nil); got != nil {
		t.Errorf("of no arguments: %q", got)
	}
}
