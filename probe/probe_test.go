package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// gather runs collectors on all their sections; the result is what was missing
// and how many sections were seen.
func gather(ctx context.Context, o Options, collectors ...collector) (missing map[facts.Section]string, seen int) {
	var sections []facts.Section
	for _, c := range collectors {
		sections = append(sections, c.section)
	}
	missing = map[facts.Section]string{}
	run(ctx, collectors, o, sections, func(section facts.Section, f facts.Facts, reason string) {
		if reason != "" {
			missing[section] = reason
		}
		if f.Has(section) {
			seen++
		}
	})
	return missing, seen
}

var sound = collector{facts.SectionMemory, time.Second, "nothing", func(_ context.Context, _ Options, f *facts.Facts) error {
	f.Memory = &facts.Memory{}
	return nil
}}

func TestPanicCostsOnlyItself(t *testing.T) {
	crash := collector{facts.SectionHost, time.Second, "nothing", func(context.Context, Options, *facts.Facts) error {
		var none []int
		_ = none[len(none)]
		return nil
	}}
	missing, seen := gather(t.Context(), Options{}, crash, sound)
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
		hang := collector{facts.SectionDisk, 2 * time.Second, "a hung mount", func(context.Context, Options, *facts.Facts) error {
			<-release // as deaf to its context as a system call
			return nil
		}}
		start := time.Now()
		missing, seen := gather(t.Context(), Options{}, hang, sound)
		if took := time.Since(start); took != hang.limit+lastWords {
			t.Errorf("the hung collector was given up after %s, want %s", took, hang.limit+lastWords)
		}
		want := map[facts.Section]string{facts.SectionDisk: "no answer within 2s: a hung mount?"}
		if diff := cmp.Diff(want, missing); diff != "" || seen != 1 {
			t.Errorf("%d sections seen, want 1; missing (-want +got):\n%s", seen, diff)
		}
	})
}

func TestSectionIsEmittedAsSoonAsItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := collector{facts.SectionHost, 3 * time.Second, "nothing", func(ctx context.Context, _ Options, f *facts.Facts) error {
			time.Sleep(time.Second)
			f.Host = &facts.Host{}
			return nil
		}}
		start := time.Now()
		after := map[facts.Section]time.Duration{}
		run(t.Context(), []collector{slow, sound}, Options{}, []facts.Section{slow.section, sound.section}, func(s facts.Section, _ facts.Facts, _ string) {
			after[s] = time.Since(start)
		})
		want := map[facts.Section]time.Duration{facts.SectionHost: time.Second, facts.SectionMemory: 0}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("emitted after (-want +got):\n%s", diff)
		}
	})
}

func TestReasons(t *testing.T) {
	patient := func(ctx context.Context, _ Options, _ *facts.Facts) error {
		<-ctx.Done()
		return fmt.Errorf("reading: %w", ctx.Err())
	}
	for name, test := range map[string]struct {
		collect  func(context.Context, Options, *facts.Facts) error
		deadline time.Duration
		cancel   bool
		want     string
	}{
		"could not look":  {collect: func(context.Context, Options, *facts.Facts) error { return errors.New("/proc is not mounted") }, want: "/proc is not mounted"},
		"minds its limit": {collect: patient, want: "no answer within 2s: a cold?"},
		"has its own last words": {collect: func(ctx context.Context, _ Options, _ *facts.Facts) error {
			<-ctx.Done()
			return errors.New("python3 sleeps")
		}, want: "python3 sleeps"},
		"the node's deadline": {collect: patient, deadline: time.Second, want: "not ready within 1s, the time for the whole node"},
		"interrupted":         {collect: patient, cancel: true, want: "interrupted"},
		"a limit of its own": {collect: func(context.Context, Options, *facts.Facts) error {
			return fmt.Errorf("resolver: %w", context.DeadlineExceeded)
		}, want: "resolver: context deadline exceeded"},
		"saw nothing": {collect: func(context.Context, Options, *facts.Facts) error { return nil }, want: "the collector came back with nothing, which is a bug in preflight"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel {
					time.AfterFunc(time.Millisecond, cancel)
				}
				missing, _ := gather(ctx, Options{Deadline: test.deadline}, collector{facts.SectionHost, 2 * time.Second, "a cold", test.collect})
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
		hang := collector{facts.SectionHost, time.Hour, "nothing", func(context.Context, Options, *facts.Facts) error { <-release; return nil }}
		start := time.Now()
		gather(t.Context(), Options{Deadline: 3 * time.Second}, hang)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Run took %s of 3s", took)
		}
	})
}

func TestSectionWithoutCollectorIsMissing(t *testing.T) {
	var reason string
	Run(t.Context(), Options{}, []facts.Section{facts.SectionSSH}, func(_ facts.Section, _ facts.Facts, missing string) { reason = missing })
	if want := noCollector(runtime.GOOS, facts.SectionSSH).Error(); reason != want {
		t.Errorf("missing because %q, want %q", reason, want)
	}
	for goos, want := range map[string]string{
		"linux":  `this preflight has no collector for "ssh"`,
		"darwin": "preflight looks at Linux machines only",
	} {
		if got := noCollector(goos, facts.SectionSSH).Error(); got != want {
			t.Errorf("on %s missing because %q, want %q", goos, got, want)
		}
	}
}

func TestDeadlinesNest(t *testing.T) {
	seen := map[facts.Section]bool{}
	for _, c := range collectors {
		if c.limit <= 0 || c.limit+lastWords > DefaultDeadline-lastWords {
			t.Errorf("%s may take %s, which does not fit inside the node's %s", c.section, c.limit, DefaultDeadline)
		}
		if c.suspect == "" {
			t.Errorf("%s does not say what a hang of it means", c.section)
		}
		if seen[c.section] {
			t.Errorf("%s has two collectors", c.section)
		}
		seen[c.section] = true
	}
}

func TestOptionsTravelWithoutWhatIsANodesOwn(t *testing.T) {
	sent := Options{
		Root: "/fixture", Head: true, Program: "torchrun", Files: []facts.LaunchFile{{Path: "/srv/a.py", Role: facts.RoleScript}},
		Offload: map[string]string{"offload-param": "/nvme"}, Names: []string{"w1"}, Master: "w1", MasterPort: 29500, Interpreter: "/opt/python",
		WorkDir: "/srv", Peers: map[string]string{"w1": "10.0.0.1"}, Deadline: 7 * time.Second,
	}
	wire, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got Options
	if err := json.Unmarshal(wire, &got); err != nil {
		t.Fatal(err)
	}
	sent.Root, sent.Deadline, sent.Head, sent.Program = "", 0, false, ""
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("after a round trip (-sent +got):\n%s", diff)
	}
}
