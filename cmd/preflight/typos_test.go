// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestKnownNames(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	for name, content := range map[string]string{
		"hostfile":         "user@w1 slots=1\n",
		".ssh/known_hosts": "w2,10.0.0.2 ssh-ed25519 AAAA\n|1|abc=|def= ssh-ed25519 AAAA\n[w3]:2222 ssh-ed25519 AAAA\n# w9\n",
		".ssh/config":      "Host gpu1 gpu2\n  HostName w8\nhost *.cluster !w7\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := knownNames()
	for name, want := range map[string]bool{"w1": true, "w2": true, "gpu1": true, "gpu2": true, "localhost": true, "!w7": false, "w7": false, "w8": false, "w9": false, "*.cluster": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("%s: %v, want %v in %q", name, !want, want, got)
		}
	}
}
