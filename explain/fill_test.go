// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBlanks checks that tables.yaml explains every placeholder that may remain in a command.
func TestBlanks(t *testing.T) {
	c := signatures(t)
	fixes := [][]string{}
	for _, cause := range c.Causes {
		fixes = append(fixes, cause.Fix)
	}
	for _, s := range byID(c) {
		fixes = append(fixes, s.Fix)
		for _, beside := range s.Beside {
			fixes = append(fixes, beside.Fix)
		}
	}
	word, used := regexp.MustCompile(`^[A-Z][A-Z_]+$`), map[string]bool{"COMMAND": true} // for CheckCommand
	for _, line := range slices.Concat(fixes...) {
		command, _, _ := strings.Cut(line, "   # ")
		for _, found := range placeholder.FindAllStringSubmatch(command, -1) {
			if used[found[2]] = true; word.MatchString(found[2]) && tables().Blanks[found[2]] == "" {
				t.Errorf("%s: nobody says what %s is", line, found[2])
			}
		}
	}
	for word := range maps.Keys(tables().Blanks) {
		if !used[word] {
			t.Errorf("no command has %s", word)
		}
	}
}

// TestWhere checks that each placeholder is explained once, and only if the log does not have its
// value.
func TestWhere(t *testing.T) {
	const full = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
	for log, want := range map[string][]string{
		full:          {"NODE is the node that the lines of the log name; if they name none, each node of the hostfile"},
		"w3: " + full: nil,
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if len(r.Causes) == 0 || len(r.Causes[0].Fix) < 2 {
			t.Fatalf("%s has too few fixes: %v", log, r.Causes)
		}
		if diff := cmp.Diff(want, r.Causes[0].Where); diff != "" {
			t.Errorf("%s (-want +got):\n%s", log, diff)
		}
	}
}

func TestDerive(t *testing.T) {
	const (
		proxy24 = "the proxy buffers of one rank (NCCL 2.24)"
		channel = "one shared-memory channel between two GPUs"
	)
	for _, test := range []struct {
		name, path, bytes, what string
	}{
		{"segment", "/dev/shm/nccl-Qx81bA", "14156128", proxy24},
		{"file with its reference count", "/dev/shm/nccl-Qx81bA", "14156132", proxy24},
		{"name of old releases", "nccl-shm-recv-5a1bd0c2ff3e7710-0-2-3", "9637888", channel},
		{"buffers set by hand", "/dev/shm/nccl-Qx81bA", "14156133", ""},
		{"file of somebody else", "/dev/shm/torch_77_1", "14156128", ""},
		{"no path", "", "9637888", ""},
		{"nothing at all", "/dev/shm/nccl-Qx81bA", "0", ""},
		{"no number", "/dev/shm/nccl-Qx81bA", "many", ""},
		{"no size", "/dev/shm/nccl-Qx81bA", "", ""},
		{"too large for any machine", "/dev/shm/nccl-Qx81bA", "99999999999999999999999", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			values := map[string]string{}
			for name, value := range map[string]string{"path": test.path, "bytes": test.bytes} {
				if value != "" {
					values[name] = value
				}
			}
			derive(values)
			if got := values["what"]; got != test.what {
				t.Errorf("derive gives %q, want %q", got, test.what)
			}
		})
	}
}

func TestReleaseOf(t *testing.T) {
	for _, test := range []struct{ number, release string }{
		{"2408", "2.4.8"},
		{"2804", "2.8.4"},
		{"20908", "2.9.8"},
		{"22105", "2.21.5"},
		{"23007", "2.30.7"},
		{"12020", ""}, // a version of the CUDA driver, not of NCCL
		{"535", ""},
		{"2.21.5", ""},
		{"", ""},
	} {
		if got, _ := releaseOf(test.number); got != test.release {
			t.Errorf("releaseOf(%q) = %q, want %q", test.number, got, test.release)
		}
	}
}
