// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"preflight/diagnose/hang"
	"preflight/testhosts"
)

// TestHang runs preflight hang for waiting jobs on real hosts. No job may be affected.
func TestHang(t *testing.T) {
	cluster := raise(t, "hang")
	installStandIns(t, cluster)
	for _, h := range hung {
		t.Run(h.name, func(t *testing.T) {
			if h.plant != nil {
				undo, err := h.plant(cluster)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				}()
			}
			crews := h.more
			for i := 4; i > 0; i-- {
				c, differs := h.crews[i]
				if !differs {
					c = h.all
				}
				c.node, c.by = i, cmp.Or(c.by, h.all.by)
				if !differs && c.modes == "" {
					c.modes = "meet meet"
				}
				if c.modes != "" {
					crews = append([]jobPart{c}, crews...)
				}
			}
			for _, c := range crews {
				defer startPart(t, cluster, c)()
			}
			before, last := undisturbed(t, cluster), ""
			for before != last { // until the store has accepted all connections, and the previous row's job has ended
				before, last = undisturbed(t, cluster), before
			}
			report := askHang(t, cluster, h.code)
			if got := ageless(report.Answer); got != h.want {
				t.Errorf("answer\n got %s\nwant %s", got, h.want)
			}
			if after := undisturbed(t, cluster); after != before {
				t.Errorf("the job does not wait on unharmed: before\n%s\nafter\n%s", before, after)
			}
		})
	}
	t.Run("stacks", func(t *testing.T) { stacks(t, cluster) })
}

// stacks checks that preflight runs py-spy (a stand-in) for the ranks that the answer names, and
// for no other ranks.
func stacks(t *testing.T, cluster *testhosts.Cluster) {
	const spy = "#!/bin/sh\n[ \"$1 $2 $3\" = 'dump --nonblocking --pid' ] || exit 9\n" +
		`printf 'Process %s: python train.py --token x\n\nThread %s (idle): "MainThread"\n    wait \033[2J(train.py:7)\n' "$4" "$4"` + "\n"
	if err := cluster.Put("/root/hung/bin/py-spy", []byte(spy), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Nodes[2].Run(t.Context(), "/bin/rm", "/root/hung/bin/py-spy"); err != nil {
		t.Fatal(err)
	}
	for i, modes := range []string{"meet meet", "meet meet", "stop meet", "stop meet"} {
		defer startPart(t, cluster, jobPart{node: i + 1, modes: modes})()
	}
	cmd := cluster.OnHead(t.Context(), binary(t), "hang", "-H", testhosts.HostfilePath, "--stacks", "--progress", "plain")
	cmd.Dir = sharedPrograms
	out, _ := cmd.Output() // the exit code depends on the answer
	shown := regexp.MustCompile(`pid [0-9]+|Thread [0-9]+`).ReplaceAllString(string(out), "N")
	for _, want := range []string{
		"stack      rank 4 on w3 (N)\n              py-spy is not installed there\n",
		"stack      rank 6 on w4 (N)\n              N (idle): \"MainThread\"\n                  wait \\x1b[2J(train.py:7)\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("want\n%s\nin\n%s", want, out)
		}
	}
	if strings.Contains(shown, "token") || strings.Count(shown, "stack  ") != 2 {
		t.Errorf("stacks of two ranks, and no command line:\n%s", out)
	}
}

// ages matches the ages of processes, which differ from run to run.
var ages = regexp.MustCompile(`(since|started|start|time|for) [0-9.]+ (ms|s|min)`)

func ageless(answer string) string { return ages.ReplaceAllString(answer, "$1 A") }

// undisturbed returns a text with the processes of the job on every node, and with the connections
// and bytes that the job's store has received. preflight must not change this text.
func undisturbed(t *testing.T, cluster *testhosts.Cluster) string {
	t.Helper()
	var all strings.Builder
	for _, node := range cluster.Nodes {
		out, err := node.Run(t.Context(), "/bin/sh", "-c", "ps -eo pid=,stat=,args= | grep -E 'hung/|launch|ninja|orted|slurmstepd' | grep -v grep | sed -E 's/^( *[0-9]+ )[RSD]/\\1S/'; cat /root/taken 2>/dev/null; ls /root/disturbed 2>/dev/null; true")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", node.Name, out)
	}
	return all.String()
}

// askHang runs preflight hang and returns its report.
func askHang(t *testing.T, cluster *testhosts.Cluster, code int) (report hang.Report) {
	t.Helper()
	cmd := cluster.OnHead(t.Context(), binary(t), "hang", "-H", testhosts.HostfilePath, "--format", "json")
	cmd.Dir = sharedPrograms
	out, err := cmd.Output()
	ended, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && ended == nil:
		t.Fatal(err)
	case ended == nil && code != 0, ended != nil && ended.ExitCode() != code:
		t.Errorf("ended by %v, want exit code %d", err, code)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return report
}
