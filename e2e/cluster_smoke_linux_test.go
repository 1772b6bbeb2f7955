// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/drill/smoke"
	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// smokes lists faults of the first of two cards of some nodes. Each has the findings of a smoke
// test that uses only the libraries, and no other findings may result. If each node has one card,
// several nodes may fail together that would fail alone with two cards.
var smokes = []struct {
	name  string
	does  map[string]map[string]string // values for gpus.Card.Trouble, by node
	cards string                       // number of cards of each node
	want  []string
	tells []string // texts that the findings must contain
}{
	{"files are left behind", map[string]map[string]string{"w2": {"ncclCommInitRankConfig": "leave"}}, "2",
		[]string{}, nil},
	{"one computes wrong, one crashes", map[string]map[string]string{"w3": {"cuLaunchKernel": "wrong"}, "w2": {"cuLaunchKernel": "crash"}}, "2",
		[]string{"fail gpu-computes [w2]", "fail gpu-computes [w3]"}, []string{"GPU 0", "segmentation fault", "cuLaunchKernel gave a wrong answer"}},
	{"a sum is wrong", map[string]map[string]string{"w2": {"ncclAllReduce": "wrong"}}, "1",
		[]string{"fail collective [w2]"}, []string{"ncclAllReduce gave a wrong answer"}},
	{"init hangs", map[string]map[string]string{"w4": {"ncclCommInitRankConfig": "hang"}}, "1",
		[]string{"fail collective [w4]"}, []string{"hangs in ncclCommInitRankConfig"}},
}

// TestSmoke makes ranks compute and reduce with stand-ins for libcuda and libnccl on real hosts.
// The smoke test must find exactly the faulty ranks or nodes. It must leave no process or file
// behind, whether it has finished or was interrupted.
func TestSmoke(t *testing.T) {
	cluster := raise(t, "smoke")
	for _, node := range cluster.Nodes {
		if _, err := node.SetDriver(dual(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := node.CUDATorch("2.5.1+cu124", "12.4"); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range smokes {
		t.Run(s.name, func(t *testing.T) {
			for name, does := range s.does {
				plantOn(t, cluster, name, driver(dual(does)))
			}
			report := judgeWith(t, cluster, binary(t), "--accelerator", "cuda", "--num_gpus", s.cards, "--smoke", "--smoke-time", "2m")
			wantSmoke(t, cluster, report, smoke.Direct, s.want, s.tells)
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		head := cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cuda", "--num_gpus", "2", "--smoke")
		head.Dir = sharedPrograms
		if err := head.Start(); err != nil {
			t.Fatal(err)
		}
		for _, node := range cluster.Nodes {
			for node := node; ranksOn(t, node) == ""; time.Sleep(20 * time.Millisecond) {
			}
		}
		if err := head.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = head.Wait()                      // other tests check the exit status
		for _, node := range cluster.Nodes { // the agents of these nodes notice the interruption after some time
			for tries := 0; ranksOn(t, node) != "" && tries < 250; tries++ {
				time.Sleep(20 * time.Millisecond)
			}
		}
		wantNothingLeft(t, cluster)
	})
}

// TestSmokeByTorch runs ranks with a stand-in for torch that computes and reduces.
func TestSmokeByTorch(t *testing.T) {
	cluster := raise(t, "smoke-torch")
	judgeSmoke := func(t *testing.T, more ...string) checks.Report {
		t.Helper()
		return judgeWith(t, cluster, binary(t), append([]string{"--accelerator", "cpu", "--num_gpus", "2", "--smoke", "--smoke-time", "2m"}, more...)...)
	}
	installTorch(t, cluster)
	for _, node := range cluster.Nodes {
		if _, err := faulty("")(node); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("no torch", func(t *testing.T) { // hide the torch that this machine may have
		for _, node := range cluster.Nodes {
			plantOn(t, cluster, node.Name, faulty("lack import"))
		}
		wantSmoke(t, cluster, judgeSmoke(t), smoke.Torch, []string{"unknown gpu-computes [w1 w2 w3 w4]"}, []string{"import torch: ModuleNotFoundError", "with --python"})
	})
	t.Run("healthy", func(t *testing.T) {
		wantSmoke(t, cluster, judgeSmoke(t), smoke.Torch, []string{}, nil)
	})
	t.Run("a reduction hangs", func(t *testing.T) {
		plantOn(t, cluster, "w3", faulty("hang reduce"))
		report := judgeSmoke(t, "--num_gpus", "1")
		wantSmoke(t, cluster, report, smoke.Torch, []string{"fail collective [w3]"}, []string{"hangs in torch.distributed.all_reduce"})
	})
}

// faulty returns a fault that replaces the installed torch with a stand-in that has the given
// trouble.
func faulty(fault string) plant {
	return func(n *testhosts.Node) (testhosts.Undo, error) {
		text, err := os.ReadFile("../drill/smoke/testdata/torch/__init__.py")
		if err != nil {
			return nil, err
		}
		where, err := n.Run(context.Background(), "/usr/bin/python3", "-c", "import importlib.util; print(importlib.util.find_spec('torch').origin)")
		if err != nil {
			return nil, err
		}
		set := fmt.Sprintf("import os\nos.environ.update(STUB=%q, STUB_DIR='/run')\n", fault)
		return n.Configure(strings.TrimSpace(where), set+string(text))
	}
}

// dual returns a machine with NCCL and two H100 GPUs, the first of which has the given troubles.
func dual(troubles map[string]string) gpus.Machine {
	machine := gpus.H100s(2)
	machine.NCCL, machine.Cards[0].Trouble = true, troubles
	return machine
}

// wantSmoke compares the findings, except those about slow ranks. Slow ranks are expected, because
// ranks of many simulated machines share the processors of one machine.
func wantSmoke(t *testing.T, cluster *testhosts.Cluster, report checks.Report, engine string, want, tells []string) {
	t.Helper()
	got, text := []string{}, ""
	for _, f := range report.Findings {
		if f.Verdict != checks.Warn || !strings.Contains(f.Summary, "slow") {
			got = append(got, short([]checks.Finding{f})...)
		}
		text += f.Summary + "\n" + f.Got + "\n" + strings.Join(append(f.Fix, f.Notes...), "\n")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s\n%s", diff, text)
	}
	for _, tell := range tells {
		if !strings.Contains(text, tell) {
			t.Errorf("nothing tells %q of\n%s", tell, text)
		}
	}
	for _, node := range report.Nodes {
		if node.Smoke == nil || node.Smoke.Engine != engine {
			t.Errorf("%s: %+v is not by %s", node.Name, node.Smoke, engine)
		}
	}
	wantNothingLeft(t, cluster)
}

// wantNothingLeft checks that no ranks are left, and no shared memory of the libraries.
func wantNothingLeft(t *testing.T, cluster *testhosts.Cluster) {
	t.Helper()
	for _, node := range cluster.Nodes {
		files, err := node.Run(t.Context(), "ls", "-A", "/dev/shm")
		if err != nil {
			t.Fatal(err)
		}
		if left := files + ranksOn(t, node); left != "" {
			t.Errorf("left on %s:\n%s", node.Name, left)
		}
	}
}

// ranksOn returns the processes of a smoke test's ranks on a node, whichever engine they use.
func ranksOn(t *testing.T, node *testhosts.Node) string {
	t.Helper()
	ranks, err := node.Run(t.Context(), "/bin/sh", "-c", "ps -eo pid,args | grep -e '[a]gent smoke' -e '[O]ne rank of preflight'; true")
	if err != nil {
		t.Fatal(err)
	}
	return ranks
}
