// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"preflight/probe/machine"
)

func TestTools(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"usr/sbin/ufw", "usr/bin/rsync", "usr/bin/other"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := tools(machine.Options{Root: root}); !slices.Equal(got, []string{"rsync", "ufw"}) {
		t.Errorf("got %q", got)
	}
}

// TestFirewalls checks which firewalls count as active.
func TestFirewalls(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                     {},
		"# ENABLED=yes\nENABLED=no\n":          {},
		"# comment\nENABLED=yes\nLOGLEVEL=low": {"ufw"},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "etc/ufw"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc/ufw/ufw.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := firewalls(machine.Options{Root: root}, false); !slices.Equal(got, want) || got == nil {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := firewalls(machine.Options{Root: root}, true); !slices.Equal(got, append([]string{"firewalld"}, want...)) {
			t.Errorf("%q with firewalld: %q", text, got)
		}
	}
}
