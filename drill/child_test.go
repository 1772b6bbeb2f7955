package drill

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// script writes an executable shell script and returns its path. A process
// forked meanwhile would hold it open for writing, and the kernel refuses to run
// such a file.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChildOutputIsCapped(t *testing.T) {
	stdout, stderr, err := runChild(t.Context(), script(t, "chatty", `head -c 1000000 /dev/zero; echo end >&2`))
	if err != nil || len(stdout) != maxPrinted || stderr != "end\n" {
		t.Errorf("%d bytes, %q, %v; want %d bytes, \"end\\n\", nil", len(stdout), stderr, err, maxPrinted)
	}
}

// What getent does, and what that says of the name.
func TestAskGetent(t *testing.T) {
	tests := []struct {
		name, does string
		want       []netip.Addr
		problem    string
		notFound   bool
	}{
		{"an address", "echo 10.0.0.1 STREAM $3", []netip.Addr{netip.MustParseAddr("10.0.0.1")}, "", false},
		{"an address and no end", "echo 10.0.0.1 STREAM $3; yes | head -c 1000000", []netip.Addr{netip.MustParseAddr("10.0.0.1")}, "", false},
		{"nothing to connect to", "echo 10.0.0.1 DGRAM $3", nil, errNoAddress.Error(), false},
		{"no such name", "echo bad >&2; exit 2", nil, "lookup w9: no such host", true},
		{"trouble", "echo cannot load a module >&2; exit 1", nil, "getent: cannot load a module", false},
		{"trouble without words", "exit 3", nil, "getent: exit status 3", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := askGetent(t.Context(), script(t, "getent", tt.does), "w9")
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			var dns *net.DNSError
			if said != tt.problem || (errors.As(err, &dns) && dns.IsNotFound) != tt.notFound {
				t.Errorf("%q, want %q, not found %t", said, tt.problem, tt.notFound)
			}
		})
	}
}

// A getent that hangs ends with the lookup, and with it what it started.
func TestGetentEndsWithItsChildren(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	getent := script(t, "getent", `sleep 300 & echo $! > "$3.part"; mv "$3.part" "$3"; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(ready); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := askGetent(ctx, getent, ready); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	grandchild, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	// SIGKILL has been sent to the group; the kernel takes a moment to act.
	pid := strings.TrimSpace(string(grandchild))
	for end := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("grandchild %s is still there", pid)
		}
	}
}

// alive is whether a process runs, or at least is not merely waiting to be
// reaped by whoever adopted it.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
