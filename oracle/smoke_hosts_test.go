// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"preflight/testhosts"
)

// smoked lists faults of hosts with a real torch, with the findings that --smoke must report.
var smoked = []struct {
	name     string
	hosts    int // number of hosts; 0 means four
	ranks    int // ranks on each host; 0 means one
	steps    []step
	options  []string
	unseen   bool              // true if no check fails without --smoke
	fails    []string          // the checks that fail, each with the nodes that it names
	got      string            // a regular expression that each `got` must match
	outcomes map[string]string // the outcomes of other checks
}{
	{name: "healthy", outcomes: map[string]string{"collective": "pass"}},
	{
		name: "two ranks a node", hosts: 2, ranks: 2,
		outcomes: map[string]string{"collective-node": "pass", "collective": "pass"},
	},
	{
		name: "one is cut off", steps: change("w3", cutOff), unseen: true, fails: []string{"collective w3"},
		got: `^w3 with w\d over gloo: .*all_reduce: .*Timed out waiting \d+ms`,
	},
	{
		// Eight torch processes need some time to load on a few processors.
		name: "two of eight are cut off", hosts: 8, steps: append(change("w3", cutOff), change("w6", cutOff)...), options: []string{"--smoke-time", "2m"},
		fails: []string{"collective w3", "collective w6"}, got: `^w[36] with w\d over gloo: .*all_reduce: .*Timed out waiting \d+ms`,
	},
	{
		// This node's own computation is right, so only collective can find the fault.
		name: "a wrong sum", steps: change("w2", addWrongly), fails: []string{"collective w2"},
		got: `^w2 with w\d over gloo: .*: element 1048575 is 4 and should be 3: .* 1 of 1048576 are wrong`,
	},
	{
		name: "torch cannot be loaded", steps: change("w4", hideTorch), fails: []string{"torch-same w4"}, got: "^ImportError: libtorch_cpu.so.*: cannot open shared object file",
		outcomes: map[string]string{"gpu-computes": "unknown: a rank fails to compute, even without other ranks: see torch-same"},
	},
	{
		name: "torch cannot be loaded, and only ranks try", steps: change("w4", hideTorch), options: []string{"--skip", "torch-same"}, fails: []string{"gpu-computes w4"},
		got: "^local rank 0: import torch: ImportError: libtorch_cpu.so.*: cannot open shared object file",
	},
}

// smokePython is a Python with the torch that runs on the hosts.
var smokePython = releases()[0].python

// cutOff lets connections and greetings pass, but not the data of a reduction.
func cutOff(n *testhosts.Node) (testhosts.Undo, error) { return n.CutAfter(300_000) }

// addWrongly changes the last element of the sums that a node computes.
func addWrongly(n *testhosts.Node) (testhosts.Undo, error) {
	return onFileOf(n, "import sitecustomize; print(sitecustomize.__file__)", func(path string) (testhosts.Undo, error) {
		return n.ChangeFile(path, func(string) string {
			return patching(0, "work = reduce(tensor, *args, **kwargs); work.wait(); tensor.reshape(-1)[-1] += 1; return work")
		})
	})
}

// hideTorch keeps torch's modules, but removes the libraries that they load.
func hideTorch(n *testhosts.Node) (testhosts.Undo, error) {
	return onFileOf(n, "import torch; print(next(row.split()[-1] for row in open('/proc/self/maps') if '/libtorch_cpu.so' in row))", n.Hide)
}

// onFileOf changes a file of the node. The script prints the file's path when the node's Python
// runs it.
func onFileOf(n *testhosts.Node, script string, change func(path string) (testhosts.Undo, error)) (testhosts.Undo, error) {
	cmd := n.Command(context.Background(), smokePython, "-c", script)
	path, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: torch is needed in %s: %w", n.Name, smokePython, err)
	}
	return change(strings.TrimSpace(string(path)))
}

// TestSmokeOnHosts runs --smoke with a real torch on hosts. preflight must name the faulty nodes,
// and no other nodes.
func TestSmokeOnHosts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	binary, dir := preflight(t), t.TempDir()
	cluster := testhosts.RaiseFor(t, testhosts.Options{Name: "smoke", Nodes: 8, Share: []string{dir, filepath.Dir(binary)}})
	for _, s := range smoked {
		t.Run(s.name, func(t *testing.T) {
			hosts, ranks := cluster.Nodes[:cmp.Or(s.hosts, 4)], cmp.Or(s.ranks, 1)
			for _, step := range s.steps {
				n, err := cluster.Node(step.where)
				if err != nil {
					t.Fatal(err)
				}
				undo, err := step.change(n)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				})
			}
			hostfile := ""
			for _, n := range hosts {
				hostfile += fmt.Sprintf("%s slots=%d\n", n.Name, ranks)
			}
			if err := os.WriteFile(filepath.Join(dir, "hostfile"), []byte(hostfile), 0o644); err != nil {
				t.Fatal(err)
			}
			judge := func(options ...string) verdict {
				cmd := cluster.OnHead(t.Context(), slices.Concat([]string{
					binary, "-H", "hostfile", "--accelerator", "cpu", "--python", smokePython, "--num_gpus", strconv.Itoa(ranks), "--timeout", "30s", "--format", "json",
				}, options)...)
				cmd.Dir = dir
				return judged(t, cmd)
			}
			if s.unseen {
				if v := judge(); v.ExitCode != 0 {
					t.Errorf("without --smoke preflight ends with %d: %s %+v", v.ExitCode, v.complaint, v.Findings)
				}
			}
			v := judge(append([]string{"--smoke"}, s.options...)...)
			if fails := v.named("fail"); !slices.Equal(fails, s.fails) || v.ExitCode != min(len(s.fails), 1) {
				t.Errorf("preflight ends with %d, fails %q, want %q: %s %+v", v.ExitCode, fails, s.fails, v.complaint, v.Findings)
			}
			for _, f := range v.Findings {
				switch {
				case f.Verdict == "fail" && !regexp.MustCompile(s.got).MatchString(f.Got):
					t.Errorf("%s of %s got %q, want what matches %s", f.Check, f.Nodes, f.Got, s.got)
				// Ignore these warnings: the speed of hosts that share the processors of one
				// machine is not tested.
				case f.Verdict == "warn" && slices.Contains([]string{"gpu-computes", "collective-speed"}, f.Check):
				case f.Check == "node-mesh" && strings.Contains(f.Got, "connbytes"): // warns about the rule of cutOff
				case f.Verdict != "fail":
					t.Errorf("unexpected finding: %+v", f)
				}
			}
			outcomes := map[string]string{}
			for _, check := range v.Checks {
				if _, wanted := s.outcomes[check.Check]; wanted {
					outcomes[check.Check] = strings.TrimSuffix(check.Verdict+": "+check.Reason, ": ")
				}
			}
			if !maps.Equal(outcomes, s.outcomes) {
				t.Errorf("%q, want %q", outcomes, s.outcomes)
			}
			for _, n := range hosts {
				left, err := n.Run(t.Context(), "/bin/sh", "-c", "grep -h python /proc/[0-9]*/comm; ls -A /dev/shm")
				if err != nil || left != "" {
					t.Errorf("%s has left: %q %v", n.Name, left, err)
				}
			}
		})
	}
}
