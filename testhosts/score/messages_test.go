// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

// TestMessages checks that nearly all messages in the lists from the sources have a meaning.
func TestMessages(t *testing.T) {
	all, err := covered(os.DirFS("../../explain/testdata/messages"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no lists")
	}
	for _, one := range all {
		if one.all == 0 || one.share() < 95 {
			t.Errorf("%s: %d of %d messages have a meaning", one.program, one.classed, one.all)
		}
	}
}
