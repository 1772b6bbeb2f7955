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
	if _, err := Parse(`\d+|abc`, 4); err == nil {
		t.Error("an expression without literal text is accepted")
	}
}
