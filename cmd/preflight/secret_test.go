// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/report/formats"
	"preflight/testhosts/secrettest"
)

// TestNothingSecretIsWritten makes preflight print as much as possible from inputs that contain
// secrets. The inputs are a saved run in every format, a launch command with its files, a log, and
// errors.
func TestNothingSecretIsWritten(t *testing.T) {
	var run checks.Report
	if err := json.Unmarshal(recordedRun, &run); err != nil {
		t.Fatal(err)
	}
	planted := secrettest.Planting{Tokens: secrettest.Tokens(2), Each: 5}
	for i := range run.Nodes {
		planted.In(&run.Nodes[i].Facts)
		planted.In(run.Nodes[i].Missing)
	}
	planted.In(&run.Head.Facts)
	planted.In(&run.Launch)
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	var lines, words []string
	config, environment := map[string]any{"train_micro_batch_size_per_gpu": 1}, "NCCL_DEBUG=INFO\n"
	for i, token := range planted.Tokens {
		lines = append(lines, "[rank0]: RuntimeError: NCCL error: unhandled system error, "+token.Text)
		if !strings.Contains(token.Text, "\n") {
			words = append(words, strings.Fields(token.Text)...)
			config["note_"+token.Format] = token.Text
		}
		if !strings.ContainsAny(token.Text, " \n") {
			environment += fmt.Sprintf("NCCL_X%d=%s\n", i, token.Text)
		}
	}
	configText, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"run.json": string(text), "recorded.json": string(recordedRun), "train.log": strings.Join(lines, "\n") + "\n", "train.py": "import torch\n",
		"hostfile": "w1 slots=1\nw2 slots=1\n", "ds.json": string(configText), ".deepspeed_env": environment,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	launch := append([]string{"--", "deepspeed", "--hostfile", "hostfile", "train.py", "--deepspeed_config", "ds.json"}, words...)
	judge := []string{"judge", "run.json", "-v"}
	var written []string
	for _, format := range formats.All {
		path := "out." + format.Name
		written = append(written, path)
		if format.Hosts {
			judge = append(judge, "--"+format.Name, path)
		} else {
			judge = append(judge, "-o", format.Name+"="+path)
		}
	}
	for _, args := range [][]string{
		judge,
		{"judge", "recorded.json", "--baseline", "run.json", "-v"},
		{"diff", "run.json", "recorded.json"},
		{"diff", "run.json", "recorded.json", "--format", "json"},
		{"explain", "train.log"},
		{"explain", "train.log", "--format", "json"},
		append([]string{"predict"}, launch...),
		append([]string{"predict", "--format", "json"}, launch...),
		append([]string{"judge"}, words...),
		append([]string{"deepspeed", "train.py"}, words...),
		{"--" + planted.Tokens[0].Text, "--password=" + planted.Tokens[1].Text},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "BE_PREFLIGHT=1", "HOME="+dir)
		output, err := cmd.CombinedOutput()
		if _, ended := err.(*exec.ExitError); err != nil && !ended || len(output) == 0 && args[len(args)-1] != judge[len(judge)-1] {
			t.Fatalf("%.60q: %v, %s", args, err, output)
		}
		reportLeaks(t, &planted, args[0], output)
	}
	for _, path := range written {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		reportLeaks(t, &planted, path, text)
	}
}

func reportLeaks(t *testing.T, planted *secrettest.Planting, what string, text []byte) {
	t.Helper()
	leaked := planted.Found(string(text))
	for i := range min(len(leaked), 5) {
		t.Errorf("%s, 1 of %d: %s", what, len(leaked), leaked[i])
	}
}
