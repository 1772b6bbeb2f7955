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

func TestMeant(t *testing.T) {
	among := []string{"job", "says", "pdsh", "html", "judge", "node-mesh"}
	for word, want := range map[string]string{"foo": "", "sey": "says", "pdhs": "pdsh", "htm": "html", "JUGDE": "judge", "": "", "j": "", "xob": "job"} {
		if got := Meant(word, among); got != want {
			t.Errorf("Meant(%q) = %q, want %q", word, got, want)
		}
	}
}
