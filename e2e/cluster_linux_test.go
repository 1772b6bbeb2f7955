// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/drill/outcome"
	"preflight/testhosts"
)

// nodeDeadline is the --timeout of the runs in these tests. slack is the additional time that a
// busy machine may need to start preflight and to evaluate the results.
const (
	nodeDeadline = 5 * time.Second
	slack        = time.Second
)

type plant = func(*testhosts.Node) (testhosts.Undo, error)

// planted lists real faults on a real node. Each has the only finding that must result, with the
// right check and the right node.
var planted = []struct {
	name    string
	node    string
	plant   plant
	verdict checks.Verdict
	check   string
}{
	{"sshd is dead", "w3", (*testhosts.Node).Kill, checks.Fail, "ssh-reach"},
	{"the node is frozen", "w3", (*testhosts.Node).Freeze, checks.Fail, "ssh-reach"},
	{"a firewall drops", "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.Drop() }, checks.Fail, "ssh-reach"},
	{"a firewall rejects", "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.Reject() }, checks.Fail, "ssh-reach"},
	{"there is no route", "w3", (*testhosts.Node).Unroute, checks.Fail, "ssh-reach"},
	{"the host key changed", "w3", (*testhosts.Node).ChangeHostKey, checks.Fail, "ssh-host-key"},
	{"the key is not authorized", "w3", (*testhosts.Node).RemoveAuthorizedKey, checks.Fail, "ssh-login"},
	{"the account is locked", "w3", (*testhosts.Node).LockAccount, checks.Fail, "ssh-login"},
	{"the shell is nologin", "w3", (*testhosts.Node).NoLoginShell, checks.Fail, "ssh-shell"},
	{"a start-up file prints on the first node", "w1", noisy, checks.Fail, "ssh-shell"},
	{"a start-up file prints elsewhere", "w3", noisy, checks.Warn, "ssh-shell"},
	{"/dev/shm is small", "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(64 << 20) }, checks.Fail, "shm-size"},
	{"/dev/shm is read-only", "w3", (*testhosts.Node).ReadOnlySHM, checks.Fail, "shm-writable"},
	{"a killed run left a segment", "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.LeftoverSegment("nccl-a1B2c3", 32<<20, 48*time.Hour)
	}, checks.Warn, "shm-leftovers"},
	{"few open files", "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Limit("nofile", 256)
	}, checks.Warn, "open-files-limit"},
	{"little locked memory", "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Limit("memlock", 64<<10)
	}, checks.Warn, "memlock-limit"},
	{"home is noexec", "w3", (*testhosts.Node).NoExecHome, checks.Warn, "disk-space"},
	{"home is full", "w3", (*testhosts.Node).FullHome, checks.Warn, "disk-space"},
	{"home is read-only", "w3", (*testhosts.Node).ReadOnlyHome, checks.Warn, "disk-space"},
	{"a name resolves elsewhere", "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.WrongHosts("w1", "10.77.250.1") }, checks.Warn, "host-names"},
	{"the own name is loopback", "w3", (*testhosts.Node).LoopbackHostname, checks.Warn, "host-names"},
	{"the master port is held", "w1", func(n *testhosts.Node) (testhosts.Undo, error) { return n.HoldPort(29500) }, checks.Fail, "master-port-free"},
	{"another protobuf", "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.OtherPackage("protobuf", "3.20.1")
	}, checks.Fail, "protobuf-same"},
	{"a stray nccl.conf", "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Configure("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n")
	}, checks.Fail, "env-sane"},
	{"the interface has another name", "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.RenameNIC("enp4s0") }, checks.Warn, "nic-same"},
}

func noisy(n *testhosts.Node) (testhosts.Undo, error) { return n.NoisyShell("Welcome to the cluster") }

// TestCluster runs the real binary on real hosts with Debian's sshd. preflight must report no
// problem on a healthy cluster, and exactly one problem for every fault.
func TestCluster(t *testing.T) {
	cluster := raise(t, "test")
	installTorch(t, cluster)
	besides := slack // additional time for a run that waits for a node; other runs need only slack
	t.Run("healthy", func(t *testing.T) {
		for _, accelerator := range []string{"cpu", "cuda"} {
			began := time.Now()
			report := judge(t, cluster, "--accelerator", accelerator)
			besides = max(besides, time.Since(began))
			if report.ExitCode != 0 || len(report.Findings) > 0 {
				t.Errorf("%s: exit code %d, findings %v", accelerator, report.ExitCode, short(report.Findings))
			}
		}
	})
	for _, fault := range planted {
		t.Run(fault.name, func(t *testing.T) {
			plantOn(t, cluster, fault.node, fault.plant)
			if fault.check == "disk-space" {
				deliver(t, cluster, binary(t)) // deliver to the directory that preflight uses now
			}
			inTime(t, nodeDeadline+besides, func() {
				report := judge(t, cluster)
				want := []string{fmt.Sprintf("%s %s [%s]", fault.verdict, fault.check, fault.node)}
				if diff := cmp.Diff(want, short(report.Findings)); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
				if wantCode := map[checks.Verdict]int{checks.Fail: 1}[fault.verdict]; report.ExitCode != wantCode {
					t.Errorf("exit code %d, want %d", report.ExitCode, wantCode)
				}
				for _, finding := range report.Findings {
					if len(finding.Fix)+len(finding.Notes) == 0 {
						t.Errorf("%s names no way out", finding.Check)
					}
				}
			})
		})
	}
}

// inTime fails if none of three runs ends in time. Other load on the machine can only make a run
// longer, so the shortest run is closest to the time that preflight itself needs.
func inTime(t *testing.T, limit time.Duration, run func()) {
	t.Helper()
	var took []time.Duration
	for range 3 {
		began := time.Now()
		run()
		if took = append(took, time.Since(began)); took[len(took)-1] <= limit {
			return
		}
	}
	t.Errorf("the runs took %v, and had %v", took, limit)
}

// binary builds the program that users run. static builds the program that NOCGO=1 makes without a
// C compiler. Each is built only once, for the first test that needs it.
var (
	binary = program("nvml")
	static = program("static", "NOCGO=1")
)

// program builds a program, with NVML unless env says otherwise.
func program(name string, env ...string) func(t *testing.T) string {
	build := sync.OnceValues(func() (string, error) {
		dir := filepath.Join(sharedPrograms, name)
		cmd := exec.Command("make", "-C", "..", "build", "BIN="+dir)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return filepath.Join(dir, "preflight"), err
	})
	return func(t *testing.T) string {
		t.Helper()
		path, err := build()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// atOnce limits the number of clusters in use to two, because a run keeps a processor busy and its
// nodes have real deadlines.
var atOnce = make(chan struct{}, 2)

// raise starts four hosts for a test. It waits until at most one other test has hosts. It skips the
// test if hosts cannot be started.
func raise(t *testing.T, name string) *testhosts.Cluster {
	t.Helper()
	return raiseWith(t, testhosts.Options{Name: name})
}

func raiseWith(t *testing.T, options testhosts.Options) *testhosts.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: -short, and the binary under test would be another one than this")
	}
	t.Parallel()
	atOnce <- struct{}{}
	t.Cleanup(func() { <-atOnce })
	if options.Share = []string{sharedPrograms}; options.Nodes == 0 {
		options.Nodes = 4
	}
	cluster := testhosts.RaiseFor(t, options)
	deliver(t, cluster, binary(t))
	return cluster
}

// installTorch gives the nodes the files of the packages that every launch needs.
func installTorch(t *testing.T, cluster *testhosts.Cluster) {
	t.Helper()
	for _, node := range cluster.Nodes {
		if _, err := node.CPUTorch("2.5.1+cpu"); err != nil {
			t.Fatal(err)
		}
	}
}

// deliver copies a program to the nodes, so that the deadline of a run does not include the
// delivery.
func deliver(t *testing.T, cluster *testhosts.Cluster, program string) {
	t.Helper()
	if out, err := cluster.OnHead(t.Context(), program, "-H", testhosts.HostfilePath, "--timeout", "2m", "--only", "agent-start").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// short returns each finding as a text with the verdict, the check and the nodes.
func short(findings []checks.Finding) []string {
	out := []string{}
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s %s %v", f.Verdict, f.Check, f.Nodes))
	}
	return out
}

// judge runs preflight on the cluster's launching machine, with GPUs expected on the nodes.
func judge(t *testing.T, cluster *testhosts.Cluster, more ...string) checks.Report {
	t.Helper()
	return judgeWith(t, cluster, binary(t), append([]string{"--accelerator", "cuda", "--skip", "slots-fit"}, more...)...)
}

func judgeWith(t *testing.T, cluster *testhosts.Cluster, program string, more ...string) checks.Report {
	t.Helper()
	argv := append([]string{program, "-H", testhosts.HostfilePath, "--timeout", nodeDeadline.String(), "--format", "json"}, more...)
	for range 2 {
		if report := reported(t, cluster.OnHead(t.Context(), argv...)); !slices.ContainsFunc(report.Findings, tooBusy) {
			return report
		}
	}
	return reported(t, cluster.OnHead(t.Context(), argv...))
}

// tooBusy reports whether a finding is unknown because this machine was too busy to tell. All hosts
// share its processors, so other tests can cause this.
func tooBusy(f checks.Finding) bool {
	return f.Verdict == checks.Unknown && (strings.Contains(f.Summary, "too little CPU time") || strings.Contains(f.Summary, outcome.ErrNoTime.Error()))
}

// reported returns the JSON report that a command prints.
func reported(t *testing.T, cmd *testhosts.Cmd) checks.Report {
	t.Helper()
	cmd.Dir = sharedPrograms // every node can see this directory, and it is not below a home directory, wherever the sources are
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	var report checks.Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return report
}
