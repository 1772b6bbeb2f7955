// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"slices"
	"testing"

	"preflight/explain"
)

const messageLists = "../../explain/testdata/messages"

// TestMessages checks that nearly all messages in the lists from the sources have a meaning.
func TestMessages(t *testing.T) {
	all, err := covered(os.DirFS(messageLists))
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

// TestMessageCauses checks that explain names the cause of each message that is listed with one, and
// no cause for a harmless message.
func TestMessageCauses(t *testing.T) {
	catalogue, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	lists := os.DirFS(messageLists)
	names, err := fs.Glob(lists, "*.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		rows, err := messages(lists, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if len(row) != 3 {
				t.Errorf("%s: %q has not three columns", name, row)
				continue
			}
			class, message := row[1], row[2]
			if slices.Contains([]string{"", "symptom", "program"}, class) {
				continue
			}
			if got := verdictOn(catalogue, message+"\n"); got != class && !(class == "harmless" && nobody[got]) {
				t.Errorf("%s: %q is %s, explain says %s", name, message, class, got)
			}
		}
	}
}
