// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts"
)

// TestCrew checks that one srun starts the agents on many nodes of a Slurm job, and that the agents
// then connect to the launching machine. If they cannot connect, every node must get its own srun,
// with a remark. A dead node or a killed program must not affect other nodes or leave anything
// behind.
func TestCrew(t *testing.T) {
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	const many = 17
	cluster := raiseWith(t, testhosts.Options{Name: "crew", Nodes: many, Slots: 1, Slurm: true})
	alone := strings.Repeat("1 ", many)
	head := cluster.Head.Address + ":29400"
	closed := func(action string) plant {
		return func(n *testhosts.Node) (testhosts.Undo, error) {
			return filtered(n, "-p", "tcp", "--dport", "29400", "-j", action)
		}
	}
	cold := map[string]plant{}
	for _, node := range cluster.Nodes {
		cold[node.Name] = forget
	}
	for _, test := range []struct {
		name  string
		kill  string // the program that is killed on the launching machine or on w4
		on    *testhosts.Node
		exit  []int
		wants []string
	}{
		{"srun is killed", "pkill -KILL -x srun", cluster.Head, []int{0}, []string{}},
		{"an agent is killed", "pkill -KILL -f /preflight-[0-9a-f]", cluster.Nodes[3], []int{1}, []string{"fail agent-start [w4]"}},
		{"preflight is killed", "pkill -KILL -x preflight", cluster.Head, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := cluster.InSlurmJob(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--launcher", "slurm", "--via", "srun", "--format", "json",
				"--skip", "launcher-*,ssh-between-nodes,torch-same,deepspeed-same", "--throughput")
			killed := make(chan error, 1)
			go func() {
				_, err := cluster.Head.Run(t.Context(), "timeout", "60", "sh", "-c", fmt.Sprintf("until [ $(ss -tnpH state established | grep -c preflight) -ge %d ]; do sleep 0.02; done", many))
				if err == nil {
					_, err = test.on.Run(t.Context(), "sh", "-c", test.kill)
				}
				killed <- err
			}()
			if test.exit != nil {
				report := reported(t, cmd)
				if diff := gocmp.Diff(test.wants, short(report.Findings)); diff != "" || !slices.Contains(test.exit, report.ExitCode) {
					t.Errorf("exit code %d; findings (-want +got)\n%s%+v", report.ExitCode, diff, report.Findings)
				}
			} else {
				_ = cmd.Run() // salloc exits with 0 even if its program was killed
			}
			if err := <-killed; err != nil {
				t.Error(err)
			}
			for _, node := range cluster.Nodes {
				awaitOurs(t, node, "nothing", func(listeners, agents string) bool { return listeners+agents == "" })
			}
			if left, _ := cluster.Head.Run(t.Context(), "pgrep", "-x", "-a", "srun"); left != "" { // an error means that no srun is running
				t.Errorf("left on the head: %s", left)
			}
		})
	}
	for _, test := range []struct {
		name   string
		plant  map[string]plant
		inJob  string // a command that runs first in the job
		words  []string
		sruns  string // the expected number of nodes of each srun
		want   []string
		remark string
		exit   int
	}{
		{"cold", cold, "", nil, "17 " + alone + "17 ", []string{}, "", 0},
		{"warm", nil, "", nil, "17 ", []string{}, "", 0},
		{"one lacks our agent", map[string]plant{"w3": forget}, "", nil, "17 1 ", []string{}, "", 0},
		{"at a port that is named", nil, "", []string{"--callback", head}, "17 ", []string{}, "", 0},
		{"refused", map[string]plant{"": closed("REJECT")}, "", []string{"--callback", head}, "17 " + alone, []string{}, "(dial tcp " + head + ": connect: connection refused)", 0},
		{"filtered", map[string]plant{"": closed("DROP")}, "", []string{"--callback", head}, "17 " + alone, []string{}, "(dial tcp " + head + ": i/o timeout)", 0},
		{"only Slurm's ports are open", map[string]plant{"": onlySlurmsPorts}, "", nil, "17 ", []string{}, "", 0},
		{"a small /dev/shm", map[string]plant{"w7": func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(16 << 20) }}, "", nil, "17 ", []string{"warn shm-size [w7]"}, "", 0},
		// Slurm needs a minute to offer this node again, so this row is the last.
		{"no slurmd", map[string]plant{"w5": noSlurmd}, "ssh w5 /run/stop-slurmd", nil, "17 16 1 ", []string{"fail agent-start [w5]"}, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, plant := range test.plant {
				if name == "" {
					name = cluster.Head.Name
				}
				plantOn(t, cluster, name, plant)
			}
			dir, env := noted(t)
			argv := slices.Concat(env, []string{"sh", "-c", cmp.Or(test.inJob, ":") + `; exec "$@"`, "sh", binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--launcher", "slurm", "--via", "srun", "--format", "json",
				"--only", "agent-start,host-names,shm-size"}, test.words)
			report := reported(t, cluster.InSlurmJob(t.Context(), argv...))
			if diff := gocmp.Diff(test.want, short(report.Findings)); diff != "" || report.ExitCode != test.exit {
				t.Errorf("exit code %d, want %d; findings (-want +got)\n%s", report.ExitCode, test.exit, diff)
			}
			at := slices.IndexFunc(report.Checks, func(o checks.Outcome) bool { return o.Check == "agent-start" })
			if reason := report.Checks[at].Reason; (reason == "") != (test.remark == "") || !strings.Contains(reason, test.remark) {
				t.Errorf("the remark is %q", reason)
			}
			if got := sruns(t, dir); got != test.sruns {
				t.Errorf("sruns of %snodes, want %s", got, test.sruns)
			}
			for _, node := range cluster.Nodes {
				awaitOurs(t, node, "nothing", func(listeners, agents string) bool { return listeners+agents == "" })
			}
		})
	}
}

// noted creates a directory with an srun that records its arguments and then runs the real srun.
// env is a command prefix that puts this directory first in PATH.
func noted(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(binary(t)), "crew-") // the hosts can see this directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte("#!/bin/sh\necho \"$*\" >>"+dir+"/asked; exec /usr/bin/srun \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH")}
}

// sruns returns the number of nodes of each srun.
func sruns(t *testing.T, dir string) (sizes string) {
	t.Helper()
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(asked)) {
		_, of, _ := strings.Cut(line, "--nodes=")
		size, _, _ := strings.Cut(of, " ")
		sizes += size + " "
	}
	return sizes
}

// filtered adds a firewall rule for packets to a machine.
func filtered(n *testhosts.Node, rule ...string) (testhosts.Undo, error) {
	change := func(how string) error {
		_, err := n.Run(context.Background(), append([]string{"iptables", "-w", how, "INPUT"}, rule...)...)
		return err
	}
	return func() error { return change("-D") }, change("-I")
}

// forget removes the agent from a node.
func forget(n *testhosts.Node) (testhosts.Undo, error) {
	_, err := n.Run(context.Background(), "rm", "-rf", "/root/.cache/preflight")
	return func() error { return nil }, err
}

// noSlurmd prepares a node so that a job can end the node's slurmd, because Slurm starts no job on
// a node without slurmd.
func noSlurmd(n *testhosts.Node) (testhosts.Undo, error) {
	return func() error {
		_, err := n.Run(context.Background(), "slurmd", "-N", n.Name)
		return err
	}, n.WriteFile("/run/stop-slurmd", []byte("#!/bin/sh\nkill -KILL $(cat /run/slurm/slurmd.pid)\n"), 0o755)
}

// onlySlurmsPorts makes srun use a range of ports, and makes the launching machine drop connections
// to all other ports except slurmctld's.
func onlySlurmsPorts(head *testhosts.Node) (testhosts.Undo, error) {
	const restart = `pid=$(cat /run/slurm/slurmctld.pid); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done; slurmctld`
	if _, err := head.Run(context.Background(), "sh", "-c", `set -e; cp /etc/slurm/slurm.conf /etc/slurm/before; echo SrunPortRange=60001-60200 >>/etc/slurm/slurm.conf; `+restart); err != nil {
		return nil, err
	}
	undo, err := filtered(head, "-p", "tcp", "--syn", "-m", "multiport", "!", "--dports", "22,6817,60001:60200", "-j", "DROP")
	return func() error {
		_, err := head.Run(context.Background(), "sh", "-c", "mv /etc/slurm/before /etc/slurm/slurm.conf; "+restart)
		return errors.Join(undo(), err)
	}, err
}
