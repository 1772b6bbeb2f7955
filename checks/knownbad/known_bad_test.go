// SPDX-License-Identifier: Apache-2.0

package knownbad

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/testhosts/fleettest"
)

// TestList checks that every entry is valid and names its source.
func TestList(t *testing.T) {
	seen := map[string]bool{}
	for _, entry := range List() {
		if err := Valid(entry); err != nil {
			t.Errorf("%s: %v", entry.ID, err)
		}
		if seen[entry.ID] {
			t.Errorf("%s is there twice", entry.ID)
		}
		seen[entry.ID] = true
		if !strings.Contains(entry.Source, "/") {
			t.Errorf("%s names no source", entry.ID)
		}
		if entry.Fixed == "" && entry.Cure == "" {
			t.Errorf("%s has no way out", entry.ID)
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d entries were read", len(seen))
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		condition, value string
		want             bool
	}{
		{"<2.29.3", "2.28.9", true},
		{"<2.29.3", "2.29.3", false},
		{"<2.9", "2.10.1", false}, // compared as numbers, not as text
		{">=2.28.3, <2.28.9", "2.28.3", true},
		{">=2.28.3, <2.28.9", "2.28.9", false},
		{"2.7.0", "2.7.0+cu128", true},
		{"2.7.0", "2.7.1+cu128", false},
		{"2.7", "2.7.1", true},
		{"==2.26.2", "2.26.2", true},
		{"!=2.26.2", "2.26.2", false},
		{"7.0.0-1019", "7.0.0-1019-nvidia", true},
		{"7.0.0-1019", "7.0.0-1020-nvidia", false},
		{"12", "12.0", true},
		{">=10.0", "9.0", false},
		{">80", "128", true},
		{"*RTX PRO 6000*", "NVIDIA RTX PRO 6000 Blackwell Server Edition", true},
		{"*GB[23]00*", "NVIDIA H100 80GB HBM3", false},
		{"*", "/etc/topo.xml", true},
		{"aarch64", "x86_64", false},
		{"<570", "what nobody can read", false},
	} {
		bounds, err := read(c.condition)
		if err != nil {
			t.Errorf("%s: %v", c.condition, err)
			continue
		}
		if got := anyIs([]string{c.value}, bounds); got != c.want {
			t.Errorf("%s is %s: %v, want %v", c.value, c.condition, got, c.want)
		}
	}
	if bounds, err := read("*"); err != nil || anyIs(nil, bounds) {
		t.Errorf("what is not there is taken for something (%v)", err)
	}
}

func TestValid(t *testing.T) {
	good := func() checks.KnownBad {
		return checks.KnownBad{ID: "our-kernel", Says: "it hangs", Severity: checks.Error, When: map[string]string{"kernel": "6.8.0"}}
	}
	if err := Valid(good()); err != nil {
		t.Errorf("a good entry: %v", err)
	}
	for want, spoil := range map[string]func(*checks.KnownBad){
		`id: "Our Kernel" must consist of lower-case letters, digits and dashes`: func(e *checks.KnownBad) { e.ID = "Our Kernel" },
		"says: must describe what happens":                                       func(e *checks.KnownBad) { e.Says = "" },
		`severity: "fatal" is neither error nor warning`:                         func(e *checks.KnownBad) { e.Severity = "fatal" },
		"when: needs at least one condition":                                     func(e *checks.KnownBad) { e.When = nil },
		`when: unknown word "kernal": did you mean "kernel"?`:                    func(e *checks.KnownBad) { e.When = map[string]string{"kernal": "6"} },
		`when: unknown word "pip:"`:                                              func(e *checks.KnownBad) { e.When = map[string]string{"pip:": "6"} },
		`when: nccl: "<2.28," compares with nothing`:                             func(e *checks.KnownBad) { e.When = map[string]string{"nccl": "<2.28,"} },
		`when: nccl: "old" is not a version`:                                     func(e *checks.KnownBad) { e.When = map[string]string{"nccl": "<old"} },
		`when: gpu: "[": syntax error in pattern`:                                func(e *checks.KnownBad) { e.When = map[string]string{"gpu": "["} },
	} {
		entry := good()
		spoil(&entry)
		if err := Valid(entry); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("it says %v, want %s", err, want)
		}
	}
}

// TestEveryWord checks that each word works on a healthy node and reports no missing section.
func TestEveryWord(t *testing.T) {
	fleet := fleettest.Healthy(2)
	view := checks.View{All: fleet.Nodes, Head: fleet.Head, Launch: fleet.Launch, Policy: checks.DefaultPolicy()}
	view.Nodes = view.Everywhere()
	none := map[string]bool{"nvlink-domain": true, "rendezvous": true}
	for name, word := range Words {
		var values []string
		unseen := ""
		if word.launch != nil {
			values = word.launch(view)
		} else {
			values, unseen = word.of(view, view.Nodes[0])
		}
		if unseen != "" || len(values) == 0 != none[name] {
			t.Errorf("%s is %q (%s)", name, values, unseen)
		}
		if word.Says == "" {
			t.Errorf("%s is not explained", name)
		}
	}
}
