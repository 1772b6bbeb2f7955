package compare

import (
	"testing"
)

func TestRelease(t *testing.T) {
	for _, test := range []struct {
		text  string
		parts int
		want  string
	}{
		{"2.5.1+cu124", 2, "2.5"},
		{"2.5.1+cu124", 3, "2.5.1"},
		{"2.6.0a0+df5bbc09d1.nv24.12", 3, "2.6.0"},
		{"3.11", 3, "3.11.0"},
		{"2.19.3-1", 3, "2.19.3"},
		{"unknown", 2, "unknown"},
		{"", 2, ""},
	} {
		if got := Release(test.text, test.parts); got != test.want {
			t.Errorf("release(%q, %d) = %q, want %q", test.text, test.parts, got, test.want)
		}
	}
}
