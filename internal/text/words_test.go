// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word string
		most int
		want string
	}{{"shm-sise", 2, "shm-size"}, {"shm", 2, ""}, {"", 3, ""}, {"shm-size", 0, "shm-size"}} {
		if got := Nearest(c.word, []string{"clock-skew", "shm-size"}, c.most); got != c.want {
			t.Errorf("Nearest(%q) within %d = %q, want %q", c.word, c.most, got, c.want)
		}
	}
}
