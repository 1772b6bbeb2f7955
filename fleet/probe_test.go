// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"

	"preflight/agent"
	"preflight/facts"
	"preflight/launch"
	"preflight/remote"
)

// TestTake checks that a section is missing if the answer does not contain it.
func TestTake(t *testing.T) {
	for name, test := range map[string]struct {
		body string // answer for section host
		seen bool
	}{
		"seen":            {`{"seen":{"host":{}}}`, true},
		"missing":         {`{"missing":"why"}`, false},
		"another section": {`{"seen":{"net":{}}}`, false},
		"garbage":         {`7`, false},
		"no JSON":         {`{"seen":{"host":{}`, false},
		"nothing":         {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := facts.Node{Missing: map[facts.Section]string{}}
			(&alike{}).store(&node, facts.SectionHost, []byte(test.body))
			if node.Has(facts.SectionHost) != test.seen || (node.Missing[facts.SectionHost] == "") != test.seen || node.Net != nil {
				t.Errorf("host seen %v, missing %q, net %v", node.Has(facts.SectionHost), node.Missing[facts.SectionHost], node.Net)
			}
		})
	}
}

// TestUntoldSection checks that a section which the agent leaves out is missing. The other sections
// of the answer must stay.
func TestUntoldSection(t *testing.T) {
	job := running(t, answers{"probe": func(_ context.Context, _ json.RawMessage, reply remote.Reply) error {
		return reply("host", agent.Encode(agent.Probed{Seen: facts.Facts{Host: &facts.Host{Hostname: "w1"}}}), false)
	}})
	look, _ := Look(t.Context(), job)
	node := look.Nodes[0]
	if !node.Reached || node.Host == nil || node.Missing[facts.SectionSHM] != "the agent sent no answer for this section" {
		t.Errorf("reached %t, host %v, shm is missing for %q", node.Reached, node.Host, node.Missing[facts.SectionSHM])
	}
}

// TestProbingExports checks that nodes are probed with the launch's exports. Exports that a node's
// shell would change must be left out.
func TestProbingExports(t *testing.T) {
	job := Job{Prediction: launch.Prediction{Exports: []facts.Setting{
		{Name: "LD_LIBRARY_PATH", Value: "/opt/gib:$LD_LIBRARY_PATH"}, {Name: "NCCL_TOPO_FILE", Value: "/opt/topo.xml"}, {Name: "WANDB_MODE", Value: "offline"},
	}}}
	_, options := job.probing()
	if want := map[string]string{"NCCL_TOPO_FILE": "/opt/topo.xml"}; !maps.Equal(options.Exports, want) {
		t.Errorf("exports %v, want %v", options.Exports, want)
	}
}

// TestNamesKeepNobodyWaiting checks that names are resolved while nodes are being reached.
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

// TestProbingWhatTheCPUNeeds checks launches without a given accelerator. They may use the CPU, so
// the nodes must have been probed for what DeepSpeed compiles for the CPU.
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
