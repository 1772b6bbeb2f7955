// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestHostsTraps(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"127.0.0.1 localhost\n127.0.1.1\tw3.cluster   w3 # by the installer\n10.0.0.3 w3\n", []string{"127.0.1.1 w3.cluster w3"}},
		{"127.0.0.1 localhost W3\n::1 w3\n", []string{"127.0.0.1 localhost W3", "::1 w3"}},
		{"#127.0.1.1 w3\n127.0.1.1 w33\n127.0.1.300 w3\n", []string{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, hostsTraps(hostsys.NewNames(probetest.Plant(t, "-- etc/hosts --\n"+tt.text)).Hosts, "w3")); diff != "" {
			t.Errorf("hostsTraps(%q): (-want +got)\n%s", tt.text, diff)
		}
	}
}

// TestInLoginShell runs the command in the shell of the account, as sshd does. Bash reads .bashrc
// then, although the shell that started the agent has read it before.
func TestInLoginShell(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte("hostname() { [ \"$1\" = -I ] && echo 10.0.0.7 10.0.0.8 || return 3; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("SSH_CLIENT", "10.0.0.9 40000 22")
	t.Setenv("SHLVL", "1")
	passwd := fmt.Sprintf("-- etc/passwd --\nu:x:%d:0::%s:/bin/bash\n", os.Getuid(), home)
	for command, want := range map[string]facts.AddressAnswer{
		"hostname -I":        {First: "10.0.0.7"},
		"hostname":           {Exit: 3, Problem: "ended with exit status 3 and said nothing"},
		"no-such-program -I": {Exit: 127, Problem: "bash: line 1: no-such-program: command not found"},
		"true":               {},
	} {
		want.Command = command
		got := inLoginShell(t.Context(), machine.Options{Root: probetest.Plant(t, passwd), AddressCommand: command})
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", command, diff)
		}
	}
	ended, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if got := inLoginShell(ended, machine.Options{Root: probetest.Plant(t, passwd), AddressCommand: "sleep 60"}); !got.Unanswered {
		t.Errorf("a command that does not end: %+v", got)
	}
}

func TestLookUp(t *testing.T) {
	ask := func(_ context.Context, name string) ([]netip.Addr, error) {
		if address, err := netip.ParseAddr(name); err == nil {
			return []netip.Addr{address}, nil
		}
		if name != "w1" {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	got := lookUpAll(t.Context(), ask, []string{"w1", "", "root@w1", "w1", "w2", "10.0.0.7", "u@fd00::7"}, 2)
	want := []facts.Lookup{
		{Name: "w1", Addresses: []string{"10.0.0.1"}},
		{Name: "root@w1", Addresses: []string{"10.0.0.1"}},
		{Name: "w2", Addresses: []string{}, Error: "no such host"},
		{Name: "10.0.0.7", Addresses: []string{"10.0.0.7"}},
		{Name: "u@fd00::7", Addresses: []string{"fd00::7"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLookUpAllWithADeadNameServer checks that a dead name server costs a few timeouts, and not one
// for each name. The results that arrived before the deadline must be kept.
func TestLookUpAllWithADeadNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		var open, most int
		count := func(change int) {
			lock.Lock()
			defer lock.Unlock()
			open += change
			most = max(most, open)
		}
		ask := func(ctx context.Context, name string) ([]netip.Addr, error) {
			if name == "w000" {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			count(+1)
			defer count(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("w%03d", i))
		}
		const limit = 2*lookupLimit + lookupLimit/2 // two full rounds of lookups and half of a third
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		answers := lookUpAll(ctx, ask, names, 30)
		if took := time.Since(start); took != limit {
			t.Errorf("took %s, want %s", took, limit)
		}
		if most != 30 {
			t.Errorf("%d questions open at once, want 30", most)
		}
		problems := map[string]int{}
		for _, answer := range answers {
			problems[answer.Error]++
			if answer.Unanswered != (answer.Error != "") {
				t.Errorf("%s: unanswered %v with %q", answer.Name, answer.Unanswered, answer.Error)
			}
		}
		want := map[string]int{
			"": 1,
			"no answer from the name service within 3s":                     90,
			"not asked: the name service took all the time for other names": 9,
		}
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestRunOutOfTime checks a run that ends before any name can have taken too long. The name service
// must not be blamed.
func TestRunOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), lookupLimit/3)
		defer cancel()
		for _, answer := range lookUpAll(ctx, ask, []string{"w1", "w2", "w3"}, 2) {
			if answer.Error != facts.OutOfTime || !answer.Unanswered {
				t.Errorf("%+v", answer)
			}
		}
	})
}

func TestLookupProblem(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "no such host", IsNotFound: true, Server: "10.0.0.53:53"}, "no such host"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true, Server: "10.0.0.53:53"}, "no answer from name server 10.0.0.53:53 within 3s"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, "no answer from the name service within 3s"},
		{&net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53", IsTemporary: true}, "name server 10.0.0.53:53: server misbehaving (Temporary failure in name resolution)"},
		{fmt.Errorf("asked: %w", context.DeadlineExceeded), "no answer from the name service within 3s"},
		{errors.New("getent: symbol lookup error"), "getent: symbol lookup error"},
	}
	for _, tt := range tests {
		if got := lookupProblem(tt.err); got != tt.want {
			t.Errorf("lookupProblem(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestNameServerCutOff checks that a name counts as unknown if the kernel cannot reach the name
// server. getaddrinfo fails at once then.
func TestNameServerCutOff(t *testing.T) {
	for problem, unanswered := range map[string]bool{
		"dial udp 10.0.0.53:53: connect: network is unreachable":          false,
		"read udp 10.0.0.1:41111->10.0.0.53:53: read: connection refused": false,
		"server misbehaving": true,
	} {
		answer := lookUp(t.Context(), func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: problem, Server: "10.0.0.53:53", IsTemporary: true}
		}, "w1")
		if answer.Unanswered != unanswered || answer.Error == "" {
			t.Errorf("%s: %+v", problem, answer)
		}
	}
}

func TestCollectNames(t *testing.T) {
	own := ownName(t)
	root := probetest.Plant(t, strings.ReplaceAll(`
-- etc/nsswitch.conf --
hosts: files
-- etc/hosts --
127.0.1.1 OWN.cluster OWN
10.0.0.2 w2
10.0.0.4 login
`, "OWN", own))
	names, err := CollectNames(t.Context(), machine.Options{Root: root, Names: []string{"w2", "10.0.0.3"}, Hosts: 2, Master: "w2", CallBack: "login"})
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Names{
		Own: own,
		Lookups: []facts.Lookup{
			{Name: own, Addresses: []string{"127.0.1.1"}},
			{Name: "w2", Addresses: []string{"10.0.0.2"}},
			{Name: "login", Addresses: []string{"10.0.0.4"}},
			{Name: "10.0.0.3", Addresses: []string{"10.0.0.3"}},
		},
		Asked:      2,
		HostsTraps: []string{"127.0.1.1 " + own + ".cluster " + own},
		Resolver:   "files",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCollectNamesThroughGetent checks that getent is asked for sources that Go does not know.
// Names in the hosts file must not need a child process.
func TestCollectNamesThroughGetent(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	t.Setenv("PATH", filepath.Dir(probetest.Script(t, "getent", `echo "$3" >> `+asked+`; echo "10.0.0.9 STREAM $3.sss"`)))
	root := probetest.Plant(t, `
-- etc/nsswitch.conf --
hosts: files sss
-- etc/hosts --
10.0.0.2 w2
`)
	names, err := CollectNames(t.Context(), machine.Options{Root: root, Names: []string{"w2", "w9"}})
	if err != nil {
		t.Fatal(err)
	}
	own := ownName(t)
	want := []facts.Lookup{
		{Name: own, Addresses: []string{"10.0.0.9"}},
		{Name: "w2", Addresses: []string{"10.0.0.2"}},
		{Name: "w9", Addresses: []string{"10.0.0.9"}},
	}
	if diff := cmp.Diff(want, names.Lookups); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	log, err := os.ReadFile(asked)
	if err != nil || strings.Contains(string(log), "w2") {
		t.Errorf("getent was asked for %q, %v", log, err)
	}
}

// TestOwnNames: the interpreter of the launch answers, and a name without an answer is "".
func TestOwnNames(t *testing.T) {
	for script, want := range map[string][2]string{
		"echo canonical w1.lan; echo published w1": {"w1.lan", "w1"},
		"echo published w1":                        {"", "w1"},
		"echo ImportError >&2; exit 1":             {},
	} {
		canonical, published := ownNames(t.Context(), probetest.Script(t, "python", script))
		if got := [2]string{canonical, published}; got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if canonical, published := ownNames(t.Context(), "/no/python"); canonical+published != "" {
		t.Errorf("no interpreter: %q, %q", canonical, published)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		if _, published := ownNames(t.Context(), python); published == "" {
			t.Error("Python has no name for this machine")
		}
	}
}

func ownName(t *testing.T) string {
	t.Helper()
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return own
}
