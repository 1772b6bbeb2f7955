// SPDX-License-Identifier: Apache-2.0

package proof

import "testing"

// TestPower checks the text about the power of a sample. The tests of package fleet check that the
// text is true.
func TestPower(t *testing.T) {
	for n, want := range map[int]string{
		10000: "every node connected to 7 of 9,999 others. This always finds a node or a group that is cut off, in either direction. " +
			"It finds 0.14 % of single pairs that cannot reach each other, 0.07 % of pairs that fail in one direction, and 46 % of cases in which 32 nodes cannot reach 32 others. " +
			"Each run uses other pairs",
		200: "every node connected to 7 of 199 others. This always finds a node or a group that is cut off, in either direction. " +
			"It finds 7 % of single pairs that cannot reach each other, 3.5 % of pairs that fail in one direction, and more than 99 % of cases in which 32 nodes cannot reach 32 others. " +
			"Each run uses other pairs",
	} {
		if got := Power(n); got != want {
			t.Errorf("%d nodes:\n got %s\nwant %s", n, got, want)
		}
	}
}
