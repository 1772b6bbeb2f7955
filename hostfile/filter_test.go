// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"
)

// pool returns the hosts that most filter tests use.
func pool() []Host {
	return []Host{
		{Name: "w0", Slots: FirstSlots(4), Line: 1},
		{Name: "w1", Slots: FirstSlots(2), Line: 2},
		{Name: "w2", Slots: FirstSlots(0), Line: 3},
		{Name: "u@w3", Slots: FirstSlots(1), Line: 4},
	}
}

// slotted returns "name=slots" for every host.
func slotted(hosts []Host) string {
	var all []string
	for _, host := range hosts {
		all = append(all, fmt.Sprintf("%s=%s", host.Name, strings.Trim(fmt.Sprint(host.Slots), "[]")))
	}
	return strings.Join(all, "; ")
}

const (
	older     = "0.15.1" // the last release before the rules of --include changed
	unchecked = "0.19.6" // the last release that does not check --include against the hostfile
	newest    = ""
)

func include(s string) Filter { return Filter{Include: s} }
func exclude(s string) Filter { return Filter{Exclude: s} }
func limits(nodes, gpus int) Filter {
	return Filter{NumNodes: AtMost(nodes), NumGPUs: AtMost(gpus)}
}

func (f Filter) by(deepspeed string) Filter { f.DeepSpeed = deepspeed; return f }

// TestApply: each row was also run through parse_inclusion_exclusion in DeepSpeed's runner.py. That
// was done with v0.15.1, with 0.19.6 and, for the newest rules, with 0.19.8.
func TestApply(t *testing.T) {
	const all = "w0=0 1 2 3; w1=0 1; w2=; u@w3=0"
	const here = "single-host-runs-here"
	for _, c := range []struct {
		filter      Filter
		want, notes string
	}{
		{limits(-1, -1), all, ""},
		{limits(0, 0), all, ""},
		{limits(-7, -7), all, ""},

		{include("w0:0,2@w1:1"), "w0=0 2; w1=1", ""},
		{include("w1:0@w0:1"), "w0=1; w1=0", ""},
		{include("w0:2,0,2"), "w0=0 2", here},
		{include("w0:2,0,2").by(older), "w0=2 0", here},
		{include("w0:1@w0:3,0"), "w0=0 1 3", here},
		{include("w0:1@w0:3,0").by(older), "w0=3 0", here},
		{include("w0: 1,0_2,3@w1:+1"), "w0=1 2 3; w1=1", ""},
		{include("w0: 1,1_0,3@w1:+1").by(unchecked), "w0=1 3 10; w1=1", "include-unchecked-slots"},

		{include("w0@w1:0"), "w0=0 1 2 3; w1=0", ""},
		{include("w0@w1:0").by("0.19.7"), "w0=0 1 2 3; w1=0", ""},
		{include("w0@w1:0").by("0.19.7rc1"), "w0=0 1 2 3; w1=0", ""},
		{include("w0@w1:0").by("0.15.2"), "w1=0", "include-drops-host " + here},
		{include("w0@w1:0").by("0.16.0+cu124"), "w1=0", "include-drops-host " + here},
		{include("w0@w1:0").by(unchecked), "w1=0", "include-drops-host " + here},
		{include("w0@w1:0").by("unreadable"), "w0=0 1 2 3; w1=0", ""},
		{include("w0@w1:0").by(older), "w0=0 1 2 3; w1=0", ""},
		{include("w0@w0:1"), "w0=1", here},
		{include("w0:1@w0"), "w0=1", here},
		{include("w0@w0:1").by(unchecked), "w0=1", here},
		{include("w0@w0:1").by(older), "w0=1", here},
		{include("w0:1@w0").by(older), "w0=0 1 2 3", here},
		{include("w0:1@w2:5").by(unchecked), "w0=1; w2=5", "include-unchecked-slots"},
		{include("w1:9,-1@w0:0").by(unchecked), "w0=0; w1=-1 9", "include-unchecked-slots include-unchecked-slots"},
		{include("w0@w2"), "w0=0 1 2 3", "zero-slots " + here},
		{include("w0@w2").by(older), "w0=0 1 2 3", "zero-slots " + here},

		{exclude("w0"), "w1=0 1; u@w3=0", "zero-slots"},
		{exclude("w0:0,2"), "w0=1 3; w1=0 1; u@w3=0", "zero-slots"},
		{exclude("w1:0,1"), "w0=0 1 2 3; u@w3=0", "zero-slots"},
		{exclude("w0:1@w0:2"), "w0=0 3; w1=0 1; u@w3=0", "zero-slots"},
		{exclude("w0:1,1"), "w0=0 2 3; w1=0 1; u@w3=0", "zero-slots"},
		{exclude("w0@w0:1"), "w0=0 2 3; w1=0 1; u@w3=0", "zero-slots"},
		{exclude("w0@w1"), "u@w3=0", "zero-slots " + here},

		{limits(2, -1), "w0=0 1 2 3; w1=0 1", ""},
		{limits(1, -1), "w0=0 1 2 3", here},
		{Filter{NumNodes: AtMost(1), ForceMulti: true}, "w0=0 1 2 3", ""},
		{limits(4, -1), all, ""},
		{limits(9, -1), all, "num-nodes-beyond-hostfile"},
		{limits(2, 2), "w0=0 1; w1=0 1", ""},
		{limits(-1, 3), "w0=0 1 2; w1=0 1 2; w2=0 1 2; u@w3=0 1 2", "num-gpus-beyond-slots"},
	} {
		name := fmt.Sprintf("%+v", c.filter)
		hosts, notes, err := c.filter.Apply(pool())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, slotted(hosts)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(c.notes, trapsOf(notes)); diff != "" {
			t.Errorf("%s: notes (-want +got)\n%s", name, diff)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	const (
		both     = "include_str and exclude_str are mutually exclusive."
		limited  = "Cannot specify num_nodes/gpus with include/exclude"
		unpack   = "too many values to unpack (expected 2)"
		empty    = "IndexError: list index out of range"
		notFound = "Hostname '%s' not found in hostfile"
		noSlot   = "No slot '%d' specified on host '%s'"
		literal  = "invalid literal for int() with base 10: "
	)
	for _, c := range []struct {
		filter             Filter
		deepspeed, message string
	}{
		{Filter{Include: "w0:0", Exclude: "w1"}, both, "cannot be given together"},
		{Filter{Include: "w0:0", NumNodes: AtMost(0)}, limited, "even with the value 0"},
		{Filter{Exclude: "w0", NumGPUs: AtMost(2)}, limited, "remove one of the two"},
		{include("w9:0"), fmt.Sprintf(notFound, "w9"), "which has w[0-2],u@w3"},
		{include("w0:0@"), fmt.Sprintf(notFound, ""), `"@" must stand between`},
		{exclude("@"), fmt.Sprintf(notFound, ""), `"@" must stand between`},
		{exclude("w0,w1"), fmt.Sprintf(notFound, "w0,w1"), `"@" separates hosts`},
		{exclude("w[0-1]"), fmt.Sprintf(notFound, "w[0-1]"), "ranges are not expanded"},
		{exclude(" w0"), fmt.Sprintf(notFound, " w0"), `" w0" is not in the hostfile`},
		{exclude("u@w3"), fmt.Sprintf(notFound, "u"), `"u" is not in the hostfile`},
		{exclude("w1:2"), fmt.Sprintf(noSlot, 2, "w1"), "its 2 slots count from 0"},
		{exclude("w1:-1"), fmt.Sprintf(noSlot, -1, "w1"), "no slot -1"},
		{include("w1:2"), fmt.Sprintf(noSlot, 2, "w1"), "no slot 2"},
		{include("w1:2").by(older), fmt.Sprintf(noSlot, 2, "w1"), "no slot 2"},
		{exclude("w0:1,1").by(older), "list.remove(x): x not in list", "named twice"},
		{include("w0:"), literal + "''", `has "" where a slot number belongs`},
		{include("w0:a"), literal + "'a'", `"w0:a" has "a"`},
		{exclude("w0:0-2"), literal + "'0-2'", "write each one"},
		{include("w0:0:1"), unpack, "more than one colon"},
		{exclude("fe80::1"), unpack, "more than one colon"},
		{include("w0").by(unchecked), empty, "for DeepSpeed 0.15.2 to 0.19.6, a name alone means no slots"},
		{include("w2"), empty, "none of its hosts has a slot left"},
		{Filter{Include: "w0:a", Exclude: "w1"}, both, "cannot be given together"},
		{Filter{Include: "w0:a", Exclude: "w1"}.by(unchecked), literal + "'a'", `"w0:a" has "a"`},
		{Filter{Include: "w0:a", Exclude: "w1"}.by(older), both, "cannot be given together"},
		{include("w2").by(older), empty, "none of its hosts has a slot left"},
		{exclude("w0@w1@u@w3"), fmt.Sprintf(notFound, "u"), ""},
		{limits(-1, 1<<20), "", "more than 1048576 ranks"},
	} {
		name := fmt.Sprintf("%+v", c.filter)
		hosts, _, err := c.filter.Apply(pool())
		var refused *FilterError
		if !errors.As(err, &refused) || hosts != nil {
			t.Errorf("%s: %v, %v; want a FilterError", name, hosts, err)
			continue
		}
		if refused.DeepSpeed != c.deepspeed || !strings.Contains(refused.Message, c.message) {
			t.Errorf("%s: %q and %q, want %q and %q", name, refused.DeepSpeed, refused.Message, c.deepspeed, c.message)
		}
	}
}

// TestApplyLeavesNothing checks a filter that excludes every host.
func TestApplyLeavesNothing(t *testing.T) {
	_, notes, err := exclude("w0").Apply(pool()[:1])
	var refused *FilterError
	if !errors.As(err, &refused) || refused.Option != "--exclude" || refused.DeepSpeed != "IndexError: list index out of range" {
		t.Errorf("%v, want an IndexError by --exclude", err)
	}
	if len(notes) != 0 {
		t.Errorf("notes %v", notes)
	}
	if _, notes, _ = include("w0").by(unchecked).Apply(pool()); trapsOf(notes) != "include-drops-host" || !strings.Contains(notes[0].Message, "write w0:0,1,2,3") {
		t.Errorf("notes %v, want how to write it", notes)
	}
}

func TestApplyReportsAllAtOnce(t *testing.T) {
	for filter, want := range map[Filter]string{
		include("w8:0@w0:a@w1:7"):               "--include: \"w0:a\" has \"a\" where a slot number belongs; write each one, like w1:0,1,2,3\n--include: host \"w8\" is not in the hostfile, which has w[0-2],u@w3\n--include: host w1 has no slot 7, its 2 slots count from 0",
		include("w8:0@w0:a@w9:0").by(unchecked): "--include: \"w0:a\" has \"a\" where a slot number belongs; write each one, like w1:0,1,2,3\n--include: host \"w8\" is not in the hostfile, which has w[0-2],u@w3\n--include: host \"w9\" is not in the hostfile, which has w[0-2],u@w3",
		include("w8:0@w0:a@w1:7").by(older):     "--include: host \"w8\" is not in the hostfile, which has w[0-2],u@w3\n--include: \"w0:a\" has \"a\" where a slot number belongs; write each one, like w1:0,1,2,3\n--include: host w1 has no slot 7, its 2 slots count from 0",
	} {
		_, _, err := filter.Apply(pool())
		var all *multierror.Error
		if !errors.As(err, &all) {
			t.Errorf("%+v: %v, want all errors", filter, err)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", filter, diff)
		}
	}
}

// TestApplyWithoutStatedSlots checks hosts of -w, whose number of slots is unknown. The filters
// keep these hosts and do not check their slots.
func TestApplyWithoutStatedSlots(t *testing.T) {
	hosts := []Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got, notes, err := exclude("a").Apply(hosts)
	if err != nil || slotted(got) != "b=; c=" || got[0].Slots != nil || len(notes) > 0 {
		t.Errorf("%v %v %v, want b and c with nil slots", got, notes, err)
	}
	for _, release := range []string{older, unchecked, newest} {
		got, notes, err = include("a:5@b:0").by(release).Apply(hosts)
		if err != nil || slotted(got) != "a=5; b=0" || len(notes) > 0 {
			t.Errorf("%q: %v %v %v, want slots as named", release, got, notes, err)
		}
	}
	if _, _, err = exclude("a:0").Apply(hosts); err == nil || !strings.Contains(err.Error(), "write it as a:N in -w") {
		t.Errorf("%v, want how to state slots", err)
	}
	got, notes, err = limits(-1, 2).Apply(hosts)
	if err != nil || slotted(got) != "a=0 1; b=0 1; c=0 1" || len(notes) > 0 {
		t.Errorf("%v %v %v, want two slots each", got, notes, err)
	}
}

func TestApplyOnLocalhost(t *testing.T) {
	for name, want := range map[string]string{"localhost": "", "127.0.0.1": "", "::1": "", "w0": "single-host-runs-here"} {
		_, notes, err := limits(-1, -1).Apply([]Host{{Name: name, Slots: FirstSlots(1)}})
		if err != nil || trapsOf(notes) != want {
			t.Errorf("%s: %v %v, want %q", name, notes, err, want)
		}
	}
}

func TestGiven(t *testing.T) {
	for filter, want := range map[Filter]bool{limits(-1, -1): false, limits(0, -1): true, limits(-1, 2): true, include("a"): true, exclude("a"): true} {
		if filter.Given() != want {
			t.Errorf("%+v: Given() = %v", filter, !want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, text := range []string{"w0:0,2@w1:1", "w0", "w0@w1:0", "@", "w0:", "w0:a", "w9", "w0:0:1", "w0: 1,3,1_0", "w1:-1,9", "w0:1,1@w0:1", "w0:99999999999999999999", "u@w3", "w0:'\n"} {
		f.Add(text, "", -1, -1, uint(0))
		f.Add(text, "", -1, -1, uint(1))
		f.Add("", text, -1, -1, uint(2))
	}
	f.Add("", "", 2, 3, uint(0))
	f.Add("", "", 0, 1<<40, uint(0))
	f.Add("w0:0", "w1", -1, 0, uint(1))
	f.Fuzz(func(t *testing.T, included, excluded string, nodes, gpus int, rules uint) {
		filter := Filter{Include: included, Exclude: excluded, NumNodes: AtMost(nodes), NumGPUs: AtMost(gpus)}
		filter.DeepSpeed = []string{newest, unchecked, older}[rules%3]
		before := pool()
		hosts, _, err := filter.Apply(before)
		if diff := cmp.Diff(pool(), before); diff != "" {
			t.Fatalf("the hosts given were changed: %s", diff)
		}
		if err != nil {
			if refused := (*FilterError)(nil); !errors.As(err, &refused) || refused.Message == "" {
				t.Fatalf("%v is no FilterError", err)
			}
			return
		}
		if len(hosts) == 0 {
			t.Fatal("no host and no error")
		}
		last := -1
		for _, host := range hosts {
			at := slices.IndexFunc(before, func(h Host) bool { return h.Name == host.Name })
			if at <= last {
				t.Fatalf("%s is out of hostfile order", slotted(hosts))
			}
			last = at
		}
	})
}
