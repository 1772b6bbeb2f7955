// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// machine returns the Names of a machine without a name server. sources is the hosts line of
// nsswitch.conf ("" for no such file), hosts is the hosts file, and getent is the script of a
// getent that finds the name in $3. asked returns the arguments that getent got.
func machine(t *testing.T, sources, hosts, getent string) (n *Names, asked func() string) {
	t.Helper()
	root := t.TempDir()
	log := filepath.Join(root, "asked")
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if sources != "" {
		write("etc/nsswitch.conf", "passwd: files sss\n"+sources+"\n", 0o600)
	}
	write("etc/hosts", hosts, 0o600)
	if getent != "" {
		if err := os.Mkdir(filepath.Join(root, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(root, "bin/getent"), fmt.Sprintf("#!/bin/sh\necho \"$LC_ALL $*\" >> %s\n%s\n", log, getent))
	}
	t.Setenv("PATH", filepath.Join(root, "bin")+":/usr/bin:/bin")
	if getent == "" {
		t.Setenv("PATH", filepath.Join(root, "bin"))
	}
	system := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = system })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server here")
	}}
	return NewNames(root), func() string {
		text, _ := os.ReadFile(log) // the file is missing if getent was not started
		return string(text)
	}
}

// both is a script that prints getent's output for a name with two address families.
const both = "printf '::1 STREAM w9.lan\\n::1 DGRAM\\n::1 RAW\\n127.0.0.1 STREAM\\n127.0.0.1 DGRAM\\n127.0.0.9 RAW\\n'"

// TestLookupNetIP checks which source is asked for a name, and the result.
func TestLookupNetIP(t *testing.T) {
	const (
		hosts  = "10.0.0.1 w1.cluster w1\nfd00::1 W1\n10.0.0.1 w1\n10.0.0.5 login # the door\n"
		byGo   = "no name server here"
		resort = "printf 'fd00::1 STREAM w1\\n10.0.0.1 STREAM w1\\n'"
	)
	tests := []struct {
		name, sources, network, asked, getent string

		want string // the addresses, or part of the error
		args string // arguments of getent, "" if it must not be started
	}{
		// These names are resolved from the hosts file.
		{"once in the hosts file", "hosts: files sss", "ip", "LOGIN", both, "[10.0.0.5]", ""},
		{"twice, to be sorted", "hosts: files dns", "ip", "w1", resort, "[fd00::1 10.0.0.1]", "ahosts -- w1"},
		{"once in its family", "hosts: files dns", "ip4", "w1", resort, "[10.0.0.1]", ""},
		{"hosts file not first", "hosts: sss files", "ip", "login", both, "[::1 127.0.0.1]", "ahosts -- login"},
		{"hosts file merged", "hosts: files [SUCCESS=merge] dns", "ip", "login", both, "[::1 127.0.0.1]", "ahosts -- login"},
		{"an address", "hosts: sss", "ip", "fd00::7", both, "[fd00::7]", ""},

		// These names are resolved by Go's resolver, which gives the same answer as the C library.
		{"files and dns", "hosts: files dns", "ip", "w9", both, byGo, ""},
		{"dns and files", "hosts:dns files # sss", "ip", "w9", both, byGo, ""},
		{"no nsswitch.conf", "", "ip", "w9", both, byGo, ""},
		{"a line that is none", "#hosts: sss", "ip", "w9", both, byGo, ""},
		{"the first line counts", "hosts: files dns\nhosts: sss", "ip", "w9", both, byGo, ""},
		{"mdns without .local", "hosts: files mdns4_minimal [NOTFOUND=return] dns", "ip", "w9", both, byGo, ""},
		{"myhostname of another", " hosts : files\tdns  myhostname", "ip", "w9", both, byGo, ""},

		// Only the C library can resolve these names.
		{"resolve", "hosts: files resolve [!UNAVAIL=return] dns", "ip", "w9", both, "[::1 127.0.0.1]", "ahosts -- w9"},
		{"resolve alone", "hosts: files resolve", "ip", "w9", both, "[::1 127.0.0.1]", "ahosts -- w9"},
		{"sss", "hosts: files sss dns", "ip", "w9", both, "[::1 127.0.0.1]", "ahosts -- w9"},
		{"sss, IPv4", "hosts: files sss dns", "ip4", "w9", both, "[127.0.0.1]", "ahostsv4 -- w9"},
		{"sss, IPv6", "hosts: files sss dns", "ip6", "w9", "echo ::ffff:127.0.0.1 STREAM; " + both, "[::1]", "ahostsv6 -- w9"},
		{"an action", "hosts: files[NOTFOUND=return] dns", "ip", "w9", both, "[::1 127.0.0.1]", "ahosts -- w9"},
		{"an action without end", "hosts: files dns [NOTFOUND=return", "ip", "w9", both, "[::1 127.0.0.1]", "ahosts -- w9"},
		{".local", "hosts: files mdns4_minimal [NOTFOUND=return] dns", "ip", "w9.Local.", both, "[::1 127.0.0.1]", "ahosts -- w9.Local."},
		{"myhostname of its own", "hosts: files dns myhostname", "ip", "_gateway", both, "[::1 127.0.0.1]", "ahosts -- _gateway"},
		{"a name for no shell", "hosts: sss", "ip", "w9;touch x", both, "[::1 127.0.0.1]", "ahosts -- w9;touch x"},

		// getent gives no answer.
		{"not known to it", "hosts: sss", "ip", "w9", "echo bad >&2; exit 2", "lookup w9: no such host", "ahosts -- w9"},
		{"broken", "hosts: sss", "ip", "w9", "echo cannot load a module >&2; exit 127", "getent: cannot load a module", "ahosts -- w9"},
		{"broken without words", "hosts: sss", "ip", "w9", both + "; exit 1", "getent: ended with exit status 1", "ahosts -- w9"},
		{"broken, and Go knows", "hosts: sss", "ip4", "localhost", "exit 1", "[127.0.0.1]", "ahostsv4 -- localhost"},
		{"garbage", "hosts: sss", "ip", "w9", "echo who STREAM; echo 127.0.0.1; echo 10.0.0.1 DGRAM", "getent: no address", "ahosts -- w9"},
		{"endless", "hosts: sss", "ip", "w9", both + "; yes | head -c 1000000", "[::1 127.0.0.1]", "ahosts -- w9"},
		{"none there", "hosts: sss", "ip", "w9", "", byGo, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, asked := machine(t, tt.sources, hosts, tt.getent)
			addresses, err := n.LookupNetIP(t.Context(), tt.network, tt.asked)
			got := fmt.Sprint(addresses)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			var dns *net.DNSError
			if isKnown := !errors.As(err, &dns) || !dns.IsNotFound; isKnown == strings.Contains(tt.want, "no such host") {
				t.Errorf("error %#v", err)
			}
			if tt.args != "" {
				tt.args = "C " + tt.args + "\n"
			}
			if asked() != tt.args {
				t.Errorf("getent was started with %q, want %q", asked(), tt.args)
			}
		})
	}
}

func TestLookupEndsInTime(t *testing.T) {
	n, _ := machine(t, "hosts: sss", "", "sleep 300")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.LookupNetIP(ctx, "ip", "w9"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
}

func TestLookupReadsHostsAtLast(t *testing.T) {
	for hosts, want := range map[string]string{"hosts: dns files": "[10.0.0.9]", "hosts: dns": "[]", "hosts: dns [!UNAVAIL=return] files": "[]"} {
		n, _ := machine(t, hosts, "10.0.0.9 w9\n", "sleep 300")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if addresses, _ := n.LookupAtLast(ctx, time.Nanosecond, "ip", "W9"); fmt.Sprint(addresses) != want {
			t.Errorf("%s: %v, want %s", hosts, addresses, want)
		}
		cancel()
	}
}

func TestSourcesAndHosts(t *testing.T) {
	n, _ := machine(t, "hosts:\tfiles   mdns4_minimal  [NOTFOUND=return] dns # no cache", "#10.0.0.1 w1\n10.0.0.300 w1\n10.0.0.2\n10.0.0.3 w3.cluster\tw3 # three\n", "exit 2")
	if n.Sources != "files mdns4_minimal [NOTFOUND=return] dns" {
		t.Errorf("sources %q", n.Sources)
	}
	want := []HostsLine{{netip.MustParseAddr("10.0.0.3"), []string{"w3.cluster", "w3"}}}
	if diff := cmp.Diff(want, n.Hosts, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n.AtOnce() != lookupsAtOnce {
		t.Errorf("%d lookups at once", n.AtOnce())
	}
	if n, _ = machine(t, "hosts: sss", "", "exit 2"); n.AtOnce() != childrenAtOnce {
		t.Errorf("%d lookups by a child at once", n.AtOnce())
	}
}
