// SPDX-License-Identifier: Apache-2.0

package explain

import "testing"

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
		{"12020", ""}, // of the CUDA driver
		{"535", ""},
		{"2.21.5", ""},
		{"", ""},
	} {
		if got, _ := releaseOf(test.number); got != test.release {
			t.Errorf("releaseOf(%q) = %q, want %q", test.number, got, test.release)
		}
	}
}
