// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
)

// TestLoginCause maps ssh's messages to causes.
func TestLoginCause(t *testing.T) {
	exit := func(code string) error { return exec.Command("/bin/sh", "-c", "exit "+code).Run() }
	tests := []struct {
		name, stderr   string
		err            error
		cause, message string
	}{
		{"no name", "ssh: Could not resolve hostname w9: Name or service not known\r\n", exit("255"),
			"name", "ssh: Could not resolve hostname w9: Name or service not known"},
		{"refused", "ssh: connect to host w2 port 22: Connection refused\r\n", exit("255"),
			"connect", "ssh: connect to host w2 port 22: Connection refused"},
		{"no route", "ssh: connect to host w2 port 22: No route to host\r\n", exit("255"),
			"connect", "ssh: connect to host w2 port 22: No route to host"},
		{"no greeting", "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.2 port 22\r\n", exit("255"),
			"connect", "Connection reset by 10.0.0.2 port 22"},
		{"no answer", "ssh: connect to host w2 port 22: Connection timed out\r\n", exit("255"),
			"timeout", "ssh: connect to host w2 port 22: Connection timed out"},
		{"a silent server", "Connection timed out during banner exchange\r\nConnection to 10.0.0.2 port 22 timed out\r\n", exit("255"),
			"timeout", "Connection to 10.0.0.2 port 22 timed out"},
		{"an unknown key", "Host key verification failed.\r\n", exit("255"), "host-key", "Host key verification failed."},
		{"an unknown key, strictly", "No ED25519 host key is known for w2 and you have requested strict checking.\r\nHost key verification failed.\r\n", exit("255"),
			"host-key", "No ED25519 host key is known for w2 and you have requested strict checking."},
		{"another key", "@@@@@\r\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n@@@@@\r\nHost key for w2 has changed and you have requested strict checking.\r\nHost key verification failed.\r\n", exit("255"),
			"host-key-changed", "Host key for w2 has changed and you have requested strict checking."},
		{"no key of ours", "root@w2: Permission denied (publickey,password).\r\n", exit("255"), "denied", "root@w2: Permission denied (publickey,password)."},
		{"too many keys", "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\r\n\r\n", exit("255"),
			"denied", "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures"},
		{"a shell that refuses", "This account is currently not available.\n", exit("1"), "shell", "This account is currently not available."},
		{"a shell that says nothing", "\n", exit("7"), "shell", "the login passed, then true ended with exit status 7"},
		{"something new", "Bad configuration option: foo\n", exit("255"), "other", "Bad configuration option: foo"},
		{"nothing at all", "", exit("255"), "other", "ssh ended with exit status 255 and printed nothing"},
		{"no start", "", exec.ErrNotFound, "other", exec.ErrNotFound.Error()},
	}
	for _, tt := range tests {
		cause, message := loginCause(tt.stderr, tt.err)
		if cause != tt.cause || message != tt.message {
			t.Errorf("%s: %s: %q, want %s: %q", tt.name, cause, message, tt.cause, tt.message)
		}
	}
}

// TestLoginsWithoutTime covers logins that preflight ends at the time limit. Such a login counts as
// failed only if ssh would also have given up, or had already printed the reason.
func TestLoginsWithoutTime(t *testing.T) {
	ssh := script(t, "ssh", `case "$*" in
*-G*) ;;
*silent*) exec sleep 300 ;;
*complains*) echo "$0: connect to host w2 port 22: Connection refused" >&2; exec sleep 300 ;;
*mutters*) echo "a motd" >&2; exec sleep 300 ;;
esac`)
	t.Setenv("PATH", filepath.Dir(ssh)+":"+os.Getenv("PATH"))
	const short = time.Second
	tests := []struct {
		name  string
		peers []string
		time  time.Duration
		want  facts.Logins
	}{
		{"enough", []string{"w2"}, time.Minute, facts.Logins{Passed: []string{"w2"}}},
		{"ended by us", []string{"silent"}, short, facts.Logins{Untried: []string{"silent"}}},
		{"two never began", []string{"silent1", "silent2", "silent3", "silent4", "silent5", "silent6"}, short,
			facts.Logins{Untried: []string{"silent1", "silent2", "silent3", "silent4", "silent5", "silent6"}}},
		{"ended by us after it said why", []string{"complains"}, short, facts.Logins{Failed: []facts.Login{
			{Peer: "complains", Cause: "connect", Message: ssh + ": connect to host w2 port 22: Connection refused"}}}},
		{"ended by us after it said something", []string{"mutters"}, short, facts.Logins{Failed: []facts.Login{
			{Peer: "mutters", Cause: "timeout", Message: "a motd"}}}},
		{"longer than ssh would wait", []string{"silent"}, loginConnect + time.Second, facts.Logins{Failed: []facts.Login{
			{Peer: "silent", Cause: "timeout", Message: "no answer"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			got := Logins{Peers: tt.peers, Deadline: tt.time}.Run(t.Context())
			for i := range got.Failed { // the durations vary, so they are not compared
				got.Failed[i].Message, _, _ = strings.Cut(got.Failed[i].Message, " within ")
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(facts.Login{}, "Seconds")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoLogins checks that nothing is tried without ssh, and that the reason is reported.
func TestNoLogins(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got := Logins{Peers: []string{"w2"}, Deadline: time.Minute}.Run(t.Context())
	if got.Error != "ssh is not installed" || len(got.Passed)+len(got.Failed) > 0 {
		t.Errorf("%+v", got)
	}
}

// script creates an executable shell script and returns its path. If another process were forked
// during the write, it would hold the file open for writing, and the kernel refuses to run such a
// file.
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

// alive reports whether a process runs. A process that only waits to be reaped does not count.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
