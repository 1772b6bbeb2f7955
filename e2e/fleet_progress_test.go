// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight"
	"preflight/fleet"
	"preflight/remote"
	"preflight/testhosts"
)

// TestProgressTellsEveryStep checks the progress events. Every phase must have a start, and then
// one start and one end for every node in the phase. A lost node must have no further events.
func TestProgressTellsEveryStep(t *testing.T) {
	warm(t)
	hosts := testhosts.Start(t, testhosts.Host{Name: "w1", Home: sharedHome, Env: leavesAtOnce},
		testhosts.Host{Name: "w2", Fault: testhosts.Refuses}, testhosts.Host{Name: "w3", Home: sharedHome, Env: leavesAtOnce})
	job := job(t, hosts, time.Minute)
	var mu sync.Mutex
	told := map[fleet.Phase]map[string][]string{} // events by phase and node; "" is the phase itself
	var lost error
	job.Progress = func(event fleet.Event) {
		mu.Lock()
		defer mu.Unlock()
		if told[event.Phase] == nil {
			told[event.Phase] = map[string][]string{}
		}
		step := string(event.Step)
		if event.Node == "" && event.Nodes > 0 {
			step += fmt.Sprint(" ", event.Nodes)
		}
		if event.Step == fleet.Lost {
			lost = event.Err
		}
		told[event.Phase][event.Node] = append(told[event.Phase][event.Node], step)
	}
	preflight.Look(t.Context(), job)
	through, drilled := []string{"began", "ended"}, map[string][]string{"": {"began 2"}, "w1": {"began", "ended"}, "w3": {"began", "ended"}}
	for phase, want := range map[fleet.Phase]map[string][]string{
		fleet.Reaching: {"": {"began 3", "ended"}, "w1": through, "w2": {"began", "lost"}, "w3": through},
		fleet.Looking:  {"": {"began 3", "ended"}, "w1": through, "w3": through},
		"rendezvous":   drilled,
		"mesh":         drilled,
	} {
		if diff := cmp.Diff(want, told[phase]); diff != "" {
			t.Errorf("%s: %s", phase, diff)
		}
	}
	if failure := (*remote.Error)(nil); !errors.As(lost, &failure) || failure.Cause != remote.Refused {
		t.Errorf("w2 is lost of %v", lost)
	}
}

// TestProgressOfAnInterruptedRun checks that a node is not reported as lost if the user interrupted
// the run while it waited for the node.
func TestProgressOfAnInterruptedRun(t *testing.T) {
	hosts := testhosts.Start(t, testhosts.Host{Name: "w1", Fault: testhosts.Silent})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	job := job(t, hosts, time.Minute)
	job.Progress = func(event fleet.Event) {
		switch {
		case event.Node == "":
		case event.Step == fleet.Began:
			time.AfterFunc(100*time.Millisecond, cancel)
		default:
			t.Errorf("%s has %s", event.Node, event.Step)
		}
	}
	preflight.Look(ctx, job)
}
