// SPDX-License-Identifier: Apache-2.0

package literal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, one := range []struct {
		text                   string
		literals, starts, ends string
	}{
		{`Connection refused`, "Connection refused", "Connection refused", "Connection refused"},
		{`^port (\d+) in use$`, " in use", "port ", " in use"},
		{`(?:alpha|omega) failed`, " failed", "alpha failed,omega failed", " failed,alpha failed,omega failed"},
		{`call failed(?:\s*$|, x)`, "call failed", "call failed,call failed, x", ",call failed,, x,call failed, x"},
		{`\d+ ranks`, " ranks", "", " ranks"},
	} {
		e, err := Parse(one.text, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{strings.Join(e.Literals, ","), strings.Join(e.Starts, ","), strings.Join(e.Ends, ",")}
		if e.May("nothing") {
			t.Errorf("%s: May", one.text)
		}
		t.Log(one.text, got)
		if diff := cmp.Diff([]string{one.literals}, got[:1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", one.text, diff)
		}
		for i, want := range []string{one.starts, one.ends} {
			for _, edge := range strings.Split(want, ",") {
				if edge != "" && !strings.Contains(","+got[i+1]+",", edge) {
					t.Errorf("%s: no edge %q in %q", one.text, edge, got[i+1])
				}
			}
		}
	}
	for _, one := range []struct {
		text, log string
		may       bool
	}{
		{`call failed(?:\s*$|, x)`, "call failed", true},
		{`rank (\d+) of (?:node|host) \w+ died`, "rank 1 of host w1 died", true},
		{`rank (\d+) of (?:node|host) \w+ died`, "died: rank 1 of node w1", false},
		{`rank (\d+) of (?:node|host) \w+ died`, "rank 1 of job w1 died", false},
		{`(?:ab|b+c)+ (?i:end) ab$`, "bbc END ab", true},
		{`(?:ab|b+c)+ (?i:end) ab$`, "ab", false},
	} {
		if e, err := Parse(one.text, 1); err != nil || e.May(one.log) != one.may {
			t.Errorf("%s: May(%q) is %v (%v)", one.text, one.log, !one.may, err)
		}
	}
	if _, err := Parse(`\d+|abc`, 4); err == nil {
		t.Error("an expression without literal text is accepted")
	}
}
