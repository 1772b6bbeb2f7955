// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"preflight/testhosts/remotetest"
)

// TestCommandsAreSafeInEveryShell: the wrapped scripts must mean the same to every login shell.
func TestCommandsAreSafeInEveryShell(t *testing.T) {
	scripts := map[string]string{}
	for name, command := range map[string]string{"deliver": deliverCommand, "clean": cleanCommand, "deliver inside": deliverInside, "clean inside": cleanInside} {
		inner, opened := strings.CutPrefix(command, "exec /bin/sh -c '")
		inner, closed := strings.CutSuffix(inner, "'")
		if !opened || !closed {
			t.Errorf("%s is not wrapped: %.40s", name, command)
		}
		inner, argument, hasArgument := strings.Cut(inner, "' preflight '")
		scripts[name] = inner
		if hasArgument {
			scripts[name+", its argument"] = argument
		}
	}
	for name, inner := range scripts {
		if i := strings.IndexAny(inner, "'\\!\n\r"); i >= 0 {
			t.Errorf("%s has %q at …%s", name, inner[i], inner[max(0, i-30):i])
		}
		if strings.Contains(inner, Marker) {
			t.Errorf("%s holds the marker itself: a bastion that repeats it would be believed", name)
		}
		for _, shell := range []string{"sh", "bash", "dash", "busybox"} {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Logf("NOT CHECKED with %s, which is not here", shell)
				continue
			}
			args := []string{"-n", "-c", inner}
			if shell == "busybox" {
				args = append([]string{"sh"}, args...)
			}
			if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v: %s", shell, err, out)
			}
		}
	}
}

// TestLoginShells: every login shell that is installed on this machine must work, with and without
// a cached agent.
func TestLoginShells(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "yash", "tcsh", "csh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("NOT CHECKED: %s is not here", shell)
			continue
		}
		t.Run(shell, func(t *testing.T) {
			remotetest.NoLeaks(t)
			n := &remotetest.Node{Home: t.TempDir() + "/a home", Shell: []string{path, "-c"}}
			if err := os.Mkdir(n.Home, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, cold := range []bool{true, false} {
				agent, trace, err := start(t, n, 20*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if trace.Delivered != cold || len(trace.Noise) > 0 {
					t.Errorf("delivered %v, want %v; noise %q", trace.Delivered, cold, trace.Noise)
				}
				if err := agent.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
