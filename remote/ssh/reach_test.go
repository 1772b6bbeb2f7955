// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts"
	"preflight/testhosts/remotetest"
)

// reaching returns a client of a fleet of test hosts.
func reaching(t *testing.T, timeout time.Duration, hosts ...testhosts.Host) (*remote.Client, *testhosts.Fleet) {
	t.Helper()
	remotetest.NoLeaks(t)
	for i := range hosts {
		hosts[i].Env = append(hosts[i].Env, remotetest.PromptExit)
	}
	fleet := testhosts.Start(t, hosts...)
	return clientOf(t, fleet, timeout), fleet
}

func clientOf(t *testing.T, fleet *testhosts.Fleet, timeout time.Duration) *remote.Client {
	t.Helper()
	carrier, err := New(Options{Home: fleet.Home, SystemConfig: filepath.Join(fleet.Home, "none"), AgentSocket: "none", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	c := remote.New(carrier, remote.Options{Timeout: timeout})
	t.Cleanup(func() { c.Close() })
	return c
}

// TestReachCallClean covers the whole way from a name in a hostfile to answers, and back to a clean
// node.
func TestReachCallClean(t *testing.T) {
	// This user ID belongs to no user, so that the test does not clean this machine's real
	// directories.
	tools := t.TempDir()
	remotetest.Script(t, filepath.Join(tools, "id"), "echo 4100000001")
	c, fleet := reaching(t, 20*time.Second, testhosts.Host{Name: "w1", Env: []string{"PATH=" + tools + ":/usr/bin:/bin"}})
	for _, cold := range []bool{true, false} {
		agent, trace, err := c.Reach(t.Context(), "w1")
		if err != nil {
			t.Fatal(err)
		}
		if trace.Delivered != cold || trace.Path != agent.Hello.Path || trace.Started <= 0 || trace.Connected <= 0 || trace.Banner == "" {
			t.Errorf("delivered %v, want %v; trace %+v", trace.Delivered, cold, trace)
		}
		parts := 0
		if err := agent.Call(t.Context(), "echo", 1, func(string, json.RawMessage) { parts++ }); err != nil || parts != 3 {
			t.Errorf("%d parts, %v", parts, err)
		}
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, want := fleet.Counts("w1"), (testhosts.Counts{Connections: 2, Logins: 2, Sessions: 2, Execs: 2}); got != want {
		t.Errorf("two runs cost %+v, want %+v", got, want)
	}
	removed, trace, err := c.Clean(t.Context(), "w1")
	if err != nil || len(removed) != 2 || trace.Banner == "" {
		t.Errorf("removed %q, %v; trace %+v", removed, err, trace)
	}
	if left, err := os.ReadDir(filepath.Join(fleet.HomeOf("w1"), ".cache")); err != nil || len(left) > 0 {
		t.Errorf("left on the node: %v, %v", left, err)
	}
}

// TestReachedAgentLivesWithItsContext: an agent outlives Reach's time limit, but not the context
// that Reach got.
func TestReachedAgentLivesWithItsContext(t *testing.T) {
	patient, fleet := reaching(t, time.Minute, testhosts.Host{Name: "w1"})
	first, _, err := patient.Reach(t.Context(), "w1") // delivers this test binary, for which the short limit would not be enough
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	c := clientOf(t, fleet, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	agent, _, err := c.Reach(ctx, "w1")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5100 * time.Millisecond)
	if err := agent.Call(t.Context(), "echo", nil, remotetest.Nothing); err != nil {
		t.Errorf("after the time Reach had: %v", err)
	}
	cancel()
	remotetest.Gone(t, agent.Hello.PID)
	var lost *remote.Error
	if err := agent.Close(); !errors.As(err, &lost) || lost.Cause != remote.Interrupted {
		t.Errorf("closing: %v, want interrupted", err)
	}
}

// TestReachFaults: every fault after the login has its own cause.
func TestReachFaults(t *testing.T) {
	heard := len("@@preflight shell\n@@preflight heard\n")
	other, arch := "aarch64", "arm64"
	if runtime.GOARCH == "arm64" {
		other, arch = "x86_64", "amd64"
	}
	faults := map[string]struct {
		fault testhosts.Fault
		stage remote.Stage
		cause remote.Cause
		text  string
	}{
		"session-refused": {testhosts.SessionRefused, remote.StageSession, remote.SessionRefused, ""},
		"session-ignored": {testhosts.SessionIgnored, remote.StageSession, remote.Frozen, ""},
		"exec-refused":    {testhosts.ExecRefused, remote.StageSession, remote.SessionRefused, ""},
		"exec-ignored":    {testhosts.ExecIgnored, remote.StageSession, remote.Frozen, ""},
		"forced":          {testhosts.ForcedCommand("backup only\n"), remote.StageShell, remote.ForcedCommand, "backup only"},
		"nologin":         {testhosts.NoLogin, remote.StageShell, remote.NoShell, ""},
		"pty":             {testhosts.NeedsPTY, remote.StageShell, remote.NeedsPTY, ""},
		"swallows":        {testhosts.SwallowsStdin, remote.StageShell, remote.ShellHangs, ""},
		"garbage":         {testhosts.Garbage, remote.StageShell, remote.Garbage, `\x1b]0;owned`},
		"floods":          {testhosts.Floods, remote.StageShell, remote.TooMuch, ""},
		"no-status":       {testhosts.ExitsWithoutStatus, "", "", ""},
		"arch":            {testhosts.WrongArch(other), remote.StageDeliver, remote.WrongArch, "`make cross ARCHES=" + arch + "`"},
		"os":              {testhosts.WrongOS("FreeBSD"), remote.StageDeliver, remote.WrongOS, "FreeBSD"},
		"noexec":          {testhosts.NoExec, remote.StageDeliver, remote.NoExec, ""},
		"full":            {testhosts.DiskFull, remote.StageDeliver, remote.DiskFull, ""},
		"no-gzip":         {testhosts.Lacks("gzip"), "", "", ""},
		"no-head":         {testhosts.Lacks("head"), remote.StageDeliver, remote.NoUnpacker, ""},
		"cut":             {testhosts.Truncates(heard + 30), remote.StageStart, remote.Truncated, ""},
		"frozen":          {testhosts.Freezes(heard), remote.StageStart, remote.Frozen, ""},
		"frozen-early":    {testhosts.Freezes(0), remote.StageShell, remote.Frozen, ""},
		"killed":          {testhosts.Killed("SEGV", heard), remote.StageStart, remote.AgentKilled, "SIGSEGV"},
		"noise":           {testhosts.Noise("hello\n"), "", "", ""},
	}
	var hosts []testhosts.Host
	for name, f := range faults {
		hosts = append(hosts, testhosts.Host{Name: name, Fault: f.fault})
	}
	patient, fleet := reaching(t, 30*time.Second, hosts...)
	brief := clientOf(t, fleet, 5*time.Second)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			c, timeout := patient, 30*time.Second
			if f.cause == remote.Frozen || name == "swallows" {
				t.Parallel() // the tests mostly wait
				c, timeout = brief, 5*time.Second
			}
			began := time.Now()
			agent, trace, err := c.Reach(t.Context(), name)
			if took := time.Since(began); took > timeout+remotetest.Slack {
				t.Errorf("took %s of %s", took, timeout)
			}
			if trace == nil {
				t.Fatal("no trace")
			}
			if f.cause == "" {
				if err != nil {
					t.Fatal(err)
				}
				agent.Close()
				return
			}
			var failure *remote.Error
			if !errors.As(err, &failure) || failure.Stage != f.stage || failure.Cause != f.cause || failure.Host != name || !strings.Contains(err.Error(), f.text) {
				t.Errorf("got %v\nwant %s: %s: %s: …%s…", err, name, f.stage, f.cause, f.text)
			}
		})
	}
}
