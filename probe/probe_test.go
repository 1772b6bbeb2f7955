// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/probe/machine"
)

// table replaces the sections for one test.
func table(t *testing.T, rows ...Section) {
	real := Sections
	t.Cleanup(func() { Sections = real })
	Sections = rows
}

// gather runs a table of sections. It returns which sections were missing, and how many were
// present.
func gather(ctx context.Context, t *testing.T, o machine.Options, rows ...Section) (missing map[facts.Section]string, seen int) {
	table(t, rows...)
	missing = map[facts.Section]string{}
	Run(ctx, o, Of(Nodes), func(section facts.Section, f facts.Facts, reason string) {
		if reason != "" {
			missing[section] = reason
		}
		if f.Has(section) {
			seen++
		}
	})
	return missing, seen
}

// hostRow returns a row whose collector returns facts.Host.
func hostRow(limit time.Duration, collect func(context.Context, machine.Options) (*facts.Host, error)) Section {
	return Section{facts.SectionHost, Nodes, limit, "a hung mount", anywhere(collect, func(f *facts.Facts) **facts.Host { return &f.Host })}
}

var sound = Section{facts.SectionMemory, Nodes, time.Second, "nothing", anywhere(func(context.Context, machine.Options) (*facts.Memory, error) {
	return &facts.Memory{}, nil
}, func(f *facts.Facts) **facts.Memory { return &f.Memory })}

func TestPanicCostsOnlyItself(t *testing.T) {
	crash := hostRow(time.Second, func(context.Context, machine.Options) (*facts.Host, error) {
		var none []int
		_ = none[len(none)]
		return nil, nil
	})
	missing, seen := gather(t.Context(), t, machine.Options{}, crash, sound)
	if seen != 1 {
		t.Errorf("%d sections seen beside the crashed one, want 1", seen)
	}
	reason := missing[facts.SectionHost]
	if !strings.Contains(reason, "crashed at probe_test.go:") || !strings.Contains(reason, "index out of range") {
		t.Errorf("the reason names neither place nor panic: %q", reason)
	}
}

func TestHangCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		defer close(release)
		hang := hostRow(2*time.Second, func(context.Context, machine.Options) (*facts.Host, error) {
			<-release // the collector ignores its context, like a system call
			return nil, nil
		})
		start := time.Now()
		missing, seen := gather(t.Context(), t, machine.Options{}, hang, sound)
		if took := time.Since(start); took != hang.Limit+machine.LastWords {
			t.Errorf("the hung collector was given up after %s, want %s", took, hang.Limit+machine.LastWords)
		}
		want := map[facts.Section]string{facts.SectionHost: "no answer within 2s: a hung mount?"}
		if diff := cmp.Diff(want, missing); diff != "" || seen != 1 {
			t.Errorf("%d sections seen, want 1; missing (-want +got):\n%s", seen, diff)
		}
	})
}

func TestSectionIsEmittedAsSoonAsItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table(t, hostRow(3*time.Second, func(context.Context, machine.Options) (*facts.Host, error) {
			time.Sleep(time.Second)
			return &facts.Host{}, nil
		}), sound)
		start := time.Now()
		after := map[facts.Section]time.Duration{}
		Run(t.Context(), machine.Options{}, Of(Nodes), func(s facts.Section, _ facts.Facts, _ string) {
			after[s] = time.Since(start)
		})
		want := map[facts.Section]time.Duration{facts.SectionHost: time.Second, facts.SectionMemory: 0}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("emitted after (-want +got):\n%s", diff)
		}
	})
}

func TestReasons(t *testing.T) {
	patient := func(ctx context.Context, _ machine.Options) (*facts.Host, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("reading: %w", ctx.Err())
	}
	for name, test := range map[string]struct {
		collect  func(context.Context, machine.Options) (*facts.Host, error)
		deadline time.Duration
		cancel   bool
		want     string
	}{
		"could not look": {collect: func(context.Context, machine.Options) (*facts.Host, error) {
			return nil, errors.New("/proc is not mounted")
		}, want: "/proc is not mounted"},
		"minds its limit": {collect: patient, want: "no answer within 2s: a hung mount?"},
		"has its own last words": {collect: func(ctx context.Context, _ machine.Options) (*facts.Host, error) {
			<-ctx.Done()
			return nil, errors.New("python3 sleeps")
		}, want: "python3 sleeps"},
		"the node's deadline": {collect: patient, deadline: time.Second, want: "not ready within 1s, the time limit for the whole node"},
		"interrupted":         {collect: patient, cancel: true, want: "interrupted"},
		"a limit of its own": {collect: func(context.Context, machine.Options) (*facts.Host, error) {
			return nil, fmt.Errorf("resolver: %w", context.DeadlineExceeded)
		}, want: "resolver: context deadline exceeded"},
		"saw nothing": {collect: func(context.Context, machine.Options) (*facts.Host, error) { return nil, nil }, want: "the collector returned nothing, which is a bug in preflight"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel {
					time.AfterFunc(time.Millisecond, cancel)
				}
				missing, _ := gather(ctx, t, machine.Options{Deadline: test.deadline}, hostRow(2*time.Second, test.collect))
				if got := missing[facts.SectionHost]; got != test.want {
					t.Errorf("missing because %q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestNodeDeadlineHoldsWhateverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		defer close(release)
		hang := hostRow(time.Hour, func(context.Context, machine.Options) (*facts.Host, error) { <-release; return nil, nil })
		start := time.Now()
		gather(t.Context(), t, machine.Options{Deadline: 3 * time.Second}, hang)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Run took %s of 3s", took)
		}
	})
}

func TestSectionWithoutCollectorIsMissing(t *testing.T) {
	var reason string
	Run(t.Context(), machine.Options{}, []facts.Section{facts.SectionSSH}, func(_ facts.Section, _ facts.Facts, missing string) { reason = missing })
	if want := `this preflight has no collector for "ssh"`; reason != want {
		t.Errorf("missing because %q, want %q", reason, want)
	}
}

// TestSectionIsOneRow checks that a section needs only a row. A made-up row is requested from every
// node. It must be either present, or missing with its own reason. Its facts are those of a drill,
// because no row of the real table sets that field.
func TestSectionIsOneRow(t *testing.T) {
	row := Section{facts.SectionThroughput, Nodes, time.Second, "nothing", anywhere(func(_ context.Context, o machine.Options) (*facts.Throughput, error) {
		if o.Master == "" {
			return nil, errors.New("no master")
		}
		return &facts.Throughput{}, nil
	}, func(f *facts.Facts) **facts.Throughput { return &f.Throughput })}
	all := append(slices.Clone(Sections), row)
	table(t, all...)
	if !slices.Contains(Of(Nodes), row.Name) || slices.Contains(Of(Head), row.Name) {
		t.Errorf("nodes are asked for %v, the launching machine for %v", Of(Nodes), Of(Head))
	}
	for master, want := range map[string]string{"": "no master", "w1": ""} {
		Run(t.Context(), machine.Options{Master: master}, []facts.Section{row.Name}, func(name facts.Section, seen facts.Facts, missing string) {
			if name != row.Name || missing != want || seen.Has(row.Name) == (want != "") {
				t.Errorf("%s: seen %v, missing because %q, want %q", name, seen.Has(row.Name), missing, want)
			}
		})
	}
	row.Name = facts.SectionMesh
	missing, seen := gather(t.Context(), t, machine.Options{Master: "w1"}, row)
	if want := "the collector returned nothing, which is a bug in preflight"; missing[row.Name] != want || seen != 0 {
		t.Errorf("facts of another section: %v, want %q", missing, want)
	}
}

// TestSections checks the entries of every row of the table.
func TestSections(t *testing.T) {
	met := map[facts.Section]bool{}
	for _, section := range Sections {
		if section.Limit <= 0 || section.Limit+machine.LastWords > DefaultDeadline-machine.LastWords {
			t.Errorf("%s may take %s, which does not fit inside the node's %s", section.Name, section.Limit, DefaultDeadline)
		}
		if section.Suspect == "" || section.Asked == 0 {
			t.Errorf("%s does not say what a hang of it means, or who is asked for it", section.Name)
		}
		if met[section.Name] || !slices.Contains(facts.Sections(), section.Name) {
			t.Errorf("%s stands there twice, or facts do not know it", section.Name)
		}
		met[section.Name] = true
	}
}

func TestOptionsTravelWithoutWhatIsANodesOwn(t *testing.T) {
	sent := machine.Options{
		Root: "/fixture", Head: true, Program: "torchrun", Files: []facts.LaunchFile{{Path: "/srv/a.py", Role: facts.RoleScript}},
		Places: map[string]string{"offload-param": "/nvme"}, Names: []string{"w1"}, Master: "w1", MasterPort: 29500, Interpreter: "/opt/python",
		WorkDir: "/srv", Peers: map[string]string{"w1": "10.0.0.1"}, Deadline: 7 * time.Second,
	}
	wire, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got machine.Options
	if err := json.Unmarshal(wire, &got); err != nil {
		t.Fatal(err)
	}
	sent.Root, sent.Deadline, sent.Head, sent.Program, sent.Names, sent.Peers = "", 0, false, "", nil, nil
	if diff := cmp.Diff(sent, got, cmpopts.IgnoreUnexported(machine.Options{})); diff != "" {
		t.Errorf("after a round trip (-sent +got):\n%s", diff)
	}
}
