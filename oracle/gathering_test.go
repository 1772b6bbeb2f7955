// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/diagnose/jobs"
	"preflight/drill"
	"preflight/facts"
	"preflight/probe"
)

// TestGathering reads the node rank and the agreed state of a real torchrun that waits for a second
// torchrun. After that, both must continue undisturbed.
func TestGathering(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, r release) {
		port := freePort(t)
		script := filepath.Join(t.TempDir(), "train.py")
		if err := os.WriteFile(script, []byte("print('trained')\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		launch := func() *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), r.python, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1",
				"--rdzv_backend=c10d", "--rdzv_id=run7", fmt.Sprintf("--rdzv_endpoint=127.0.0.1:%d", port), script)
			cmd.Stderr = &logged{t: t}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd
		}
		first := launch()
		awaitListener(t, port)
		gathering := awaitGathering(t, port)
		if len(gathering.Joined) != 1 || gathering.Joined[0].PID != first.Process.Pid || gathering.Complete || !isAlive(gathering.Joined[0]) {
			t.Errorf("one launcher waits, pid %d: %+v", first.Process.Pid, gathering)
		}
		if told := placeOf(t, first.Process.Pid); told.RunID != "run7" || told.Port != port || told.Nodes != "2" || told.Backend != "c10d" {
			t.Errorf("node rank and endpoint: %+v", told)
		}
		second := launch()
		for _, cmd := range []*exec.Cmd{first, second} {
			if err := cmd.Wait(); err != nil && !failsAnyway(r) {
				t.Errorf("a launcher that was looked at: %v", err)
			}
		}
	})
}

// TestRoll uses a real torchrun with its static backend, in which the second of three nodes is
// late. The store's own count must show that the first and the third node have joined. After that
// the second node joins, and the ranks must train undisturbed.
func TestRoll(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, r release) {
		port := freePort(t)
		script := filepath.Join(t.TempDir(), "train.py")
		const meet = "import torch.distributed as d\nd.init_process_group('gloo')\nd.barrier()\nprint('trained')\n"
		if err := os.WriteFile(script, []byte(meet), 0o644); err != nil {
			t.Fatal(err)
		}
		launch := func(node int) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), r.python, "-m", "torch.distributed.run", "--nnodes=3", "--nproc_per_node=1",
				fmt.Sprintf("--node_rank=%d", node), "--master_addr=127.0.0.1", fmt.Sprintf("--master_port=%d", port), script)
			cmd.Stderr = &logged{t: t}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd
		}
		all := []*exec.Cmd{launch(0)}
		awaitListener(t, port)
		all = append(all, launch(2))
		two := 2
		want := facts.Roll{Joined: &two, Came: []int{0, 2}, Absent: []int{1}}
		last, diff := &facts.Roll{}, ""
		for end := time.Now().Add(3 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if _, last = drill.Gather(t.Context(), identify(t, port), drill.Run{ID: "none", Nodes: 3}); last != nil {
				if diff = cmp.Diff(want, *last); diff == "" {
					break
				}
			}
		}
		if diff != "" || last == nil {
			t.Errorf("(-want +got)\n%s", diff)
		}
		for _, cmd := range append(all, launch(1)) {
			if err := cmd.Wait(); err != nil && !failsAnyway(r) {
				t.Errorf("a launcher that was looked at: %v", err)
			}
		}
	})
}

// awaitGathering queries the store until a launcher has joined.
func awaitGathering(t *testing.T, port int) facts.Gathering {
	t.Helper()
	for end := time.Now().Add(3 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		seen := identify(t, port)
		if gathering, _ := drill.Gather(t.Context(), seen, drill.Run{ID: "run7"}); gathering != nil && len(gathering.Joined) > 0 {
			return *gathering
		}
	}
	t.Fatal("no launcher has joined")
	return facts.Gathering{}
}

// failsAnyway reports whether this torchrun ends with an error when all launchers have joined, as
// Debian's 1.13 does with Python 3.11.
func failsAnyway(r release) bool { return r.generation == facts.GenerationLegacy }

// isAlive reports whether a launcher has recently updated the store. Launchers update the store
// every five seconds.
func isAlive(who facts.Gatherer) bool {
	return who.Silent != nil && *who.Silent >= 0 && *who.Silent < 10
}

// placeOf returns the rendezvous settings and the node rank of a launcher on this machine.
func placeOf(t *testing.T, pid int) facts.Meeting {
	t.Helper()
	seen, err := jobs.Look(t.Context(), probe.Options{}, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seen.Processes {
		if p.PID == pid {
			return p.Meeting
		}
	}
	t.Fatalf("no process %d among those of jobs", pid)
	return facts.Meeting{}
}
