// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/dsconfig"
	"preflight/testhosts/reporttest"
	"preflight/testhosts/sandbox"
)

// predicted returns the prediction of a launch that a user would type, on hosts with different
// numbers of slots.
func predicted(t *testing.T) (launch.Prediction, *facts.Node) {
	t.Helper()
	head := &facts.Node{Facts: facts.Facts{
		Env:      &facts.Env{Vars: []facts.Setting{{Name: "NCCL_DEBUG", Value: "INFO", Source: "environment"}}},
		Launcher: &facts.Launcher{DeepSpeed: "/opt/venv/bin/deepspeed", Interpreter: "/opt/venv/bin/python"},
		Files: &facts.Files{Files: []facts.File{
			{LaunchFile: facts.LaunchFile{Path: "/job/train.py", Role: facts.RoleScript}, Exists: true, Kind: "file"},
			{LaunchFile: facts.LaunchFile{Path: "/job/missing.json", Role: facts.RoleArgument}},
		}},
	}}
	p, err := launch.Predict(launch.Options{
		Hosts:  []hostfile.Host{{Name: "w1", Slots: []int{0, 1, 2, 3}}, {Name: "w2\x1b[2J", Slots: []int{0, 2, 3}}, {Name: "w3", Slots: []int{1}}},
		Script: "train.py", Arguments: []string{"--name", "two words", "--data", "missing.json"}, WorkDir: "/job", DeepSpeed: "0.19.8",
		Config: &dsconfig.File{Path: "/job/ds.json", JSON: `{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}`},
	}, head)
	if err != nil {
		t.Fatal(err)
	}
	return p, head
}

func TestPredictionText(t *testing.T) {
	p, head := predicted(t)
	var text bytes.Buffer
	if err := PredictionText(&text, NewPrediction(p, head), Style{}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "prediction.txt", text.Bytes())
}

func TestPredictionTextOfManyNodes(t *testing.T) {
	options := launch.Options{WorkDir: "/job"}
	for i := range 40 {
		options.Hosts = append(options.Hosts, hostfile.Host{Name: fmt.Sprintf("w%d", i), Slots: []int{0}})
	}
	p, err := launch.Predict(options, nil)
	if err != nil {
		t.Fatal(err)
	}
	for verbose, want := range map[bool]int{false: 8 + 1 + 8, true: 40} {
		var text bytes.Buffer
		if err := PredictionText(&text, NewPrediction(p, nil), Style{Verbose: verbose}); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(text.Bytes(), []byte("\nw")) + bytes.Count(text.Bytes(), []byte("\n… 24 more")); got != want {
			t.Errorf("verbose %v: %d rows, want %d\n%s", verbose, got, want, text.String())
		}
	}
}

// TestPredictionJSON checks that the output contains every list, even an empty one, and that
// unknown values are null.
func TestPredictionJSON(t *testing.T) {
	var text bytes.Buffer
	if err := PredictionJSON(&text, NewPrediction(launch.Prediction{Hosts: []hostfile.Host{{Name: "w1"}}}, nil)); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"ranks", "arguments", "files", "ops", "env", "command", "command_env", "notes", "errors"} {
		if _, isList := got[list].([]any); !isList {
			t.Errorf("%s is %v, no list", list, got[list])
		}
	}
	want := map[string]any{"name": "w1", "slots": nil}
	if diff := cmp.Diff([]any{want}, got["hosts"]); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if value, there := got["master_addr"].(map[string]any)["value"]; !there || value != nil || got["timeout"] != nil {
		t.Errorf("master_addr %v, timeout %v: want null", got["master_addr"], got["timeout"])
	}
}

func TestRefused(t *testing.T) {
	all := multierror.Append(nil,
		&hostfile.LineError{File: "hostfile", Line: 3, Message: "names w1 twice", DeepSpeed: "ValueError: two"},
		&hostfile.FilterError{Option: "--include", Message: "no such host", DeepSpeed: "ValueError: none"},
		&launch.UsageError{Program: "deepspeed", Message: "no such option", Original: "deepspeed: error: unrecognized"},
		errors.New("whatever"))
	want := []Refusal{
		{3, "names w1 twice", "ValueError: two"},
		{0, "--include: no such host", "ValueError: none"},
		{0, "deepspeed: no such option", "deepspeed: error: unrecognized"},
		{0, "whatever", ""},
	}
	if diff := cmp.Diff(want, Refused(all).Errors); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want[3:], Refused(all.Errors[3]).Errors); diff != "" {
		t.Errorf("one (-want +got)\n%s", diff)
	}
}

// TestReleaseIsOfDeepSpeed checks that no other program is shown with DeepSpeed's release.
func TestReleaseIsOfDeepSpeed(t *testing.T) {
	for program, want := range map[string]string{launch.ProgramDeepSpeed: "deepspeed 0.19.8", launch.ProgramTorchrun: "torchrun", launch.ProgramAccelerate: "accelerate"} {
		if got := NewPrediction(launch.Prediction{Program: program, DeepSpeed: "0.19.8"}, nil).program(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCommandsAreTyped checks that a shell splits printed commands into the original words,
// whatever the words contain, and runs no part of them as code.
func TestCommandsAreTyped(t *testing.T) {
	for _, class := range sandbox.Classes {
		word := class.In("x")
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+text.Escape(typed(word))).Output()
		if err != nil || string(out) != word {
			t.Errorf("%s: %q becomes %q by %s (%v)", class.Name, word, out, typed(word), err)
		}
	}
}
