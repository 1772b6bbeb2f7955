// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"preflight/agent"
	"preflight/facts"
	"preflight/launch"
	"preflight/probe"
)

// TestTakeBelievesNobody: a node cannot change what it has said, nor speak of
// what it was not asked.
func TestTakeBelievesNobody(t *testing.T) {
	for name, test := range map[string]struct {
		answers [][2]string // section and body
		seen    []facts.Section
		missing []facts.Section
	}{
		"seen":             {[][2]string{{"host", `{"seen":{"host":{}}}`}}, []facts.Section{facts.SectionHost}, nil},
		"missing":          {[][2]string{{"host", `{"missing":"why"}`}}, nil, []facts.Section{facts.SectionHost}},
		"another section":  {[][2]string{{"host", `{"seen":{"net":{}}}`}}, nil, []facts.Section{facts.SectionHost}},
		"garbage":          {[][2]string{{"host", `7`}}, nil, []facts.Section{facts.SectionHost}},
		"no JSON":          {[][2]string{{"host", `{"seen":{"host":{}`}}, nil, []facts.Section{facts.SectionHost}},
		"nothing":          {[][2]string{{"host", ``}}, nil, []facts.Section{facts.SectionHost}},
		"not asked":        {[][2]string{{"ssh", `{"seen":{"ssh":{}}}`}}, nil, nil},
		"seen and missing": {[][2]string{{"host", `{"seen":{"host":{}}}`}, {"host", `{"missing":"why"}`}}, []facts.Section{facts.SectionHost}, nil},
		"missing and seen": {[][2]string{{"host", `{"missing":"why"}`}, {"host", `{"seen":{"host":{}}}`}}, nil, []facts.Section{facts.SectionHost}},
	} {
		t.Run(name, func(t *testing.T) {
			node := facts.Node{Missing: map[facts.Section]string{}}
			for _, answer := range test.answers {
				(&alike{}).take(&node, probe.Of(probe.Nodes), facts.Section(answer[0]), []byte(answer[1]))
			}
			for _, section := range []facts.Section{facts.SectionHost, facts.SectionNet, facts.SectionSSH} {
				if seen := slices.Contains(test.seen, section); node.Has(section) != seen {
					t.Errorf("%s: seen %v, want %v", section, !seen, seen)
				}
				if missing := slices.Contains(test.missing, section); (node.Missing[section] != "") != missing {
					t.Errorf("%s: missing %q, want %v", section, node.Missing[section], missing)
				}
			}
		})
	}
}

// TestTooMuchOfASection: a node that tells too much of a section, for the wire or of what a
// node may tell, is told so there. The rest of it stays, and the node is reached.
func TestTooMuchOfASection(t *testing.T) {
	list := func(n int) json.RawMessage {
		return json.RawMessage(`{"seen":{"net":{"interfaces":[` + strings.Repeat("{},", n) + `{}]}}}`)
	}
	for name, test := range map[string]struct {
		net  any
		want string
	}{
		"for the wire":    {list(200_000), "the agent sent too many values"},
		"for a node":      {list(3000), "no more than"},
		"for its reasons": {agent.Probed{Missing: strings.Repeat("ä", 100_000)}, "ä"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := running(t, answers{"probe": func(_ context.Context, _ json.RawMessage, reply func(string, any) error) error {
				return errors.Join(reply("net", test.net), reply("host", agent.Probed{Seen: facts.Facts{Host: &facts.Host{Hostname: "w1"}}}))
			}}, answers{})
			look, _ := Look(t.Context(), job)
			node := look.Nodes[0]
			if !node.Reached || node.Host == nil || node.Net != nil {
				t.Errorf("reached %t, host %v, net %t", node.Reached, node.Host, node.Net != nil)
			}
			if reason := node.Missing[facts.SectionNet]; !strings.Contains(reason, test.want) || len(reason) > longestReason || !utf8.ValidString(reason) {
				t.Errorf("net is missing for %.200q", reason)
			}
			if reason := node.Missing[facts.SectionSHM]; reason != "the agent sent no answer for it" {
				t.Errorf("shm, which nobody told of, is missing for %q", reason)
			}
		})
	}
}

// What a launch exports is looked by, but what the shell on a node makes something else of.
func TestProbingExports(t *testing.T) {
	job := Job{Prediction: launch.Prediction{Exports: []facts.Setting{
		{Name: "LD_LIBRARY_PATH", Value: "/opt/gib:$LD_LIBRARY_PATH"}, {Name: "NCCL_TOPO_FILE", Value: "/opt/topo.xml"}, {Name: "WANDB_MODE", Value: "offline"},
	}}}
	_, options := job.probing()
	if want := map[string]string{"NCCL_TOPO_FILE": "/opt/topo.xml"}; !maps.Equal(options.Exports, want) {
		t.Errorf("exports %v, want %v", options.Exports, want)
	}
}

// TestNamesKeepNobodyWaiting: where names lead is looked up while nodes are reached.
func TestNamesKeepNobodyWaiting(t *testing.T) {
	job := running(t, answers{})
	reached := make(chan struct{})
	job.Progress = func(e Event) {
		if e.Phase == Reaching && e.Step == Ended && e.Node != "" {
			close(reached)
		}
	}
	came := make(chan string, 100)
	real := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = real })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-reached:
			came <- "the node"
		case <-ctx.Done():
			came <- "the end of patience"
		}
		return nil, errors.New("no name server answers")
	}}
	job.look(t.Context())
	select {
	case got := <-came:
		if got != "the node" {
			t.Errorf("while names were looked up, what came first was %s", got)
		}
	default:
		t.Error("no name server was asked")
	}
}

// TestProbingWhatTheCPUNeeds: whoever does not say which accelerator is meant may get the CPU, and
// what DeepSpeed compiles for that has been looked at then.
func TestProbingWhatTheCPUNeeds(t *testing.T) {
	for _, c := range []struct {
		p    launch.Prediction
		want bool
	}{
		{launch.Prediction{Script: "train.py", DeepSpeed: "0.16.2", Accelerator: "cuda", AcceleratorAssumed: true}, true},
		{launch.Prediction{Script: "train.py", DeepSpeed: "0.16.2", Accelerator: "cuda"}, false},
		{launch.Prediction{DeepSpeed: "0.16.2", Accelerator: "cuda", AcceleratorAssumed: true}, false},
	} {
		sections, options := Job{Prediction: c.p}.probing()
		if got := slices.Contains(sections, facts.SectionToolchain); got != c.want || (options.Ops != nil) != c.want {
			t.Errorf("%+v: the toolchain is looked at: %v, for %q", c.p, got, options.Ops)
		}
	}
}
