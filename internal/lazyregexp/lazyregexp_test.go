// SPDX-License-Identifier: Apache-2.0

package lazyregexp

import "testing"

// TestTestsCompileAtOnce: an invalid expression must fail in tests, not on the node that first uses
// it.
func TestTestsCompileAtOnce(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	New("(")
}

func TestLater(t *testing.T) {
	defer func(was bool) { inTest = was }(inTest)
	inTest = false
	late := New("(")
	defer func() {
		if recover() == nil {
			t.Error("used, it says nothing")
		}
	}()
	late.MatchString("(")
}
