// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"slices"
	"strings"
	"testing"
)

func TestArrows(t *testing.T) {
	for _, c := range []struct {
		calls []string
		want  []string
	}{
		{[]string{"w1 w2"}, []string{"w1 → w2"}},
		{[]string{"w1 w2", "w2 w1"}, []string{"w1 ↔ w2"}},
		{[]string{"w1 w3", "w1 w4", "w2 w3", "w2 w4"}, []string{"w[1-2] → w[3-4]"}},
		{[]string{"w1 w2", "w3 w2", "w4 w2", "w4 w5"}, []string{"w[1,3] → w2", "w4 → w[2,5]"}},
		{[]string{"w1 w2", "w2 w1", "w1 w3"}, []string{"w1 → w3", "w1 ↔ w2"}},
	} {
		var attempts []Attempt
		for _, call := range c.calls {
			from, to, _ := strings.Cut(call, " ")
			attempts = append(attempts, Attempt{From: from, To: to, Failed: true})
		}
		if got := Arrows(attempts); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.calls, got, c.want)
		}
	}
}
