// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"testing"
)

func TestBefore(t *testing.T) {
	for _, test := range []struct {
		text, than string
		want       bool
	}{
		{"2.4.9", "2.5", true},
		{"2.5.0", "2.5", false},
		{"2.10", "2.9", false},
		{"2.5.0a0+git1234", "2.5", false}, // a pre-release counts as its release
		{"2.21.5", "2.23", true},
		{"2.21.5+cuda12.4", "2.23", true}, // the form in which NCCL's library prints its version
		{"2.19.3-1", "2.19.3", false},     // the form of NCCL's tags
		{"", "2.5", false},
		{"unknown", "2.5", false},
		{"2.5", "unknown", false},
	} {
		if got := Before(test.text, test.than); got != test.want {
			t.Errorf("Before(%q, %q) = %v", test.text, test.than, got)
		}
	}
}

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
