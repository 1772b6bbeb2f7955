// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMessages checks that nearly all messages in the lists from the sources have a meaning.
func TestMessages(t *testing.T) {
	// Nobody has read these lists yet. They have only the meanings that explain's signatures and words
	// such as "deprecated" give.
	unread := []string{"slurm"}
	all, err := covered(os.DirFS("../../explain/testdata/messages"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no lists")
	}
	for _, one := range all {
		program, _, _ := strings.Cut(one.program, " ")
		if isRead := !slices.Contains(unread, program); one.all == 0 || isRead && one.share() < 95 || !isRead && one.share() > 95 {
			t.Errorf("%s: %d of %d messages have a meaning", one.program, one.classed, one.all)
		}
	}
}
