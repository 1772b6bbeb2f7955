// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"preflight/explain"
)

// TestTransformed checks that the cause of every example and of every labelled log stays the same
// whatever wrapped, cut, coloured or prefixed the text.
func TestTransformed(t *testing.T) {
	c, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	m := newMatrix()
	m.examples(c)
	for _, corpus := range []string{"../../explain/testdata", "../../explain/testdata/field"} {
		if err := m.logs(c, os.DirFS(corpus)); err != nil {
			t.Fatal(err)
		}
	}
	if m.share() < leastKept {
		t.Errorf("%.2f %% of %d cells keep their cause, want %d %%", m.share(), m.total.all, leastKept)
	}
	for _, lost := range m.lost {
		t.Log(lost)
	}
}
