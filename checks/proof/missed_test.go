// SPDX-License-Identifier: Apache-2.0

package proof

import "testing"

// TestPower: what is said of a sample is what it finds (fleet's tests try that).
func TestPower(t *testing.T) {
	for n, want := range map[int]string{
		10000: "every node called 7 of 9,999 others: a node or a part of the fleet that is cut off is always found, in whichever direction; " +
			"of single pairs 0.14 % that do not reach each other, 0.07 % where one direction fails; of 32 nodes that do not reach 32 others 46 %; another run calls others",
		200: "every node called 7 of 199 others: a node or a part of the fleet that is cut off is always found, in whichever direction; " +
			"of single pairs 7 % that do not reach each other, 3.5 % where one direction fails; of 32 nodes that do not reach 32 others more than 99 %; another run calls others",
	} {
		if got := Power(n); got != want {
			t.Errorf("%d nodes:\n got %s\nwant %s", n, got, want)
		}
	}
}
