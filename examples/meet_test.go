// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestMeeting runs the judge of an example together with the init containers of the example's pods.
// The pods have the names that the operators give them. All pods must meet.
func TestMeeting(t *testing.T) {
	for file, names := range map[string][]string{ // for each pod, the value that the platform inserts for the pod's name or index
		"kubernetes/pytorchjob.yaml":      {"train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"},
		"kubernetes/jobset.yaml":          {"0", "1", "2", "3"},
		"kubernetes/leaderworkerset.yaml": {"train-0", "train-0-1", "train-0-2", "train-0-3"},
	} {
		t.Run(file, func(t *testing.T) {
			judge, agents := meetingOf(t, file)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := listener.Addr().String()
			listener.Close()
			var started []*exec.Cmd
			var outputs []*bytes.Buffer
			for _, name := range names {
				argv := slices.Clone(agents[0]) // the master and the workers of a PyTorchJob share one command
				for i := range argv {
					argv[i] = strings.NewReplacer("$(POD_NAME)", name, "$(JOB_COMPLETION_INDEX)", name, "train-judge:29400", address).Replace(argv[i])
				}
				var out bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program(t), argv[1:]...)
				cmd.Env = append(os.Environ(), "PREFLIGHT_MEET_TOKEN=a token of this test")
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				started, outputs = append(started, cmd), append(outputs, &out)
			}
			argv := append(slices.Clone(judge), "--meet-listen", address, "--timeout", "60s", "--only", "agent-start", "--accelerator", "cpu", "--format", "json")
			cmd := exec.CommandContext(t.Context(), program(t), argv[1:]...)
			cmd.Env = append(os.Environ(), "PREFLIGHT_MEET_TOKEN=a token of this test")
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				t.Fatalf("%v: %s\n%s", err, exit.Stderr, out)
			}
			var report struct {
				Nodes []struct {
					Name    string
					Slots   int
					Reached bool
				}
			}
			if err := json.Unmarshal(out, &report); err != nil || len(report.Nodes) != len(names) {
				t.Fatalf("%v, %+v", err, report)
			}
			for _, node := range report.Nodes {
				if !node.Reached || node.Slots != 8 {
					t.Errorf("%+v", node)
				}
			}
			for i, cmd := range started {
				if err := cmd.Wait(); err != nil || !strings.Contains(outputs[i].String(), "the launch may begin") {
					t.Errorf("%s: %v\n%s", names[i], err, outputs[i])
				}
			}
		})
	}
}

// meetingOf returns the command of the judge in an example, and the commands of the init
// containers.
func meetingOf(t *testing.T, file string) (judge []string, agents [][]string) {
	t.Helper()
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	commands := func(at any) {}
	commands = func(at any) {
		switch at := at.(type) {
		case []any:
			for _, one := range at {
				commands(one)
			}
		case map[string]any:
			var argv []string
			words, _ := at["command"].([]any)
			for _, word := range words {
				switch word := word.(type) {
				case string:
					argv = append(argv, word)
				case int:
					argv = append(argv, strconv.Itoa(word))
				}
			}
			switch {
			case len(argv) > 1 && argv[0] == "preflight" && argv[1] == "agent":
				agents = append(agents, argv)
			case len(argv) > 0 && argv[0] == "preflight":
				judge = argv
			}
			for _, one := range at {
				commands(one)
			}
		}
	}
	decoder := yaml.NewDecoder(text)
	for {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		commands(document)
	}
	if judge == nil || agents == nil {
		t.Fatalf("%s has no judge, or no agent that calls it", file)
	}
	return judge, agents
}
