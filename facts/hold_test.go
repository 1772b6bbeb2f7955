// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"strings"
	"testing"
)

// TestHold: what is too much costs its own section, says so, and leaves the others.
func TestHold(t *testing.T) {
	const allowance = 1000
	for name, c := range map[string]struct {
		grow func(*Node)
		gone Section
	}{
		"as it should be":     {func(*Node) {}, ""},
		"entries":             {func(n *Node) { n.Net.Interfaces = make([]Interface, 200) }, SectionNet},
		"entries of a map":    {func(n *Node) { n.Python.Packages = packages(1500) }, SectionPython},
		"a text":              {func(n *Node) { n.Host.Kernel = strings.Repeat("x", 64<<10) }, SectionHost},
		"a name":              {func(n *Node) { n.Python.Packages = map[string]string{strings.Repeat("x", 64<<10): "1"} }, SectionPython},
		"few, of much inside": {func(n *Node) { n.IB.Devices = []HCA{{Ports: make([]IBPort, 100)}} }, SectionIB},
	} {
		n := Node{Facts: Facts{Host: &Host{}, Net: &Net{}, Python: &Python{}, IB: &IB{}}}
		before := values(n.section(SectionHost)) + values(n.section(SectionNet)) + values(n.section(SectionPython)) + values(n.section(SectionIB))
		c.grow(&n)
		held := n.Hold(allowance)
		if held > allowance || c.gone == "" && held != before {
			t.Errorf("%s: %d values are held, of %d", name, held, before)
		}
		for _, section := range []Section{SectionHost, SectionNet, SectionPython, SectionIB} {
			reason := n.Missing[section]
			if gone := section == c.gone; n.Has(section) == gone || gone != strings.Contains(reason, "no more than 1,000 are taken of one node") {
				t.Errorf("%s: %s seen %t, missing for %q", name, section, n.Has(section), reason)
			}
		}
	}
}

// TestHoldTogether: what no section has alone counts too, and the largest is left out.
func TestHoldTogether(t *testing.T) {
	n := Node{Facts: Facts{Host: &Host{}, Net: &Net{Interfaces: make([]Interface, 20)}, Python: &Python{Packages: packages(900)}, IB: &IB{}}}
	if held := n.Hold(1000); held > 1000 || n.Has(SectionPython) || !n.Has(SectionNet) || !n.Has(SectionHost) || !n.Has(SectionIB) {
		t.Errorf("%d values are held; missing is %q", held, n.Missing)
	}
	if reason := n.Missing[SectionPython]; !strings.Contains(reason, "beside all else it told, and no more than 1,000 are taken") {
		t.Error(reason)
	}
}

// TestHoldNames: names are held against all nodes one by one, so there are fewer of them than a
// node may tell of anything else.
func TestHoldNames(t *testing.T) {
	for _, c := range []struct {
		section Section
		facts   Facts
		kept    bool
	}{
		{SectionEnv, Facts{Env: &Env{Vars: make([]Setting, 400)}}, true},
		{SectionEnv, Facts{Env: &Env{Vars: make([]Setting, 700)}}, false},
		{SectionPython, Facts{Python: &Python{Packages: packages(3000)}}, true},
		{SectionPython, Facts{Python: &Python{Packages: packages(5000)}}, false},
	} {
		n := Node{Facts: c.facts}
		if held := n.Hold(Allowance(1)); n.Has(c.section) != c.kept || c.kept == strings.Contains(n.Missing[c.section], "are taken of one node") {
			t.Errorf("%s: seen %t, %d values held, missing for %q", c.section, n.Has(c.section), held, n.Missing[c.section])
		}
	}
}

func packages(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint("p", i)] = "1"
	}
	return all
}
