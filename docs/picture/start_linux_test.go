// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"preflight/testhosts/demo"
)

// TestStartIsTheDemos tests that start.txt has a line for each fault of the demo.
func TestStartIsTheDemos(t *testing.T) {
	_, after, _ := strings.Cut(start, "\n")
	var want strings.Builder
	for _, fault := range demo.Usual.Faults {
		fmt.Fprintln(&want, fault)
	}
	if after != want.String() {
		t.Errorf("start.txt has\n%s, and preflight demo prints\n%s", after, want.String())
	}
}
