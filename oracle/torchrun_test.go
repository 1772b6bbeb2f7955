// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"preflight/facts"
	"preflight/testhosts"
)

var logs = flag.Bool("logs", false, "keep what the jobs that fail print, for explain to read")

// job is the smallest training: all ranks meet and add up a tensor.
const job = `
import datetime, os, socket, sys
import torch, torch.distributed as dist
print("torch", torch.__version__, "rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", socket.gethostname(),
      "meets at", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
tensor = torch.full((4,), 1.0 + dist.get_rank())
dist.all_reduce(tensor)
print("reduced", tensor.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
print("job done", flush=True)
`

// mode is preflight's name for the way in which the ranks find each other.
type mode string

const (
	deepspeed mode = "deepspeed" // RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment
	static    mode = "static"    // torchrun --node_rank --master_addr
	elastic   mode = "c10d"      // torchrun --rdzv_backend c10d
)

func (m mode) port() int {
	if m == elastic {
		return 29400
	}
	return 29500
}

// fault describes what is wrong before the launch, and the expected result.
type fault struct {
	name   string
	plant  func(context.Context, *testhosts.Cluster) (testhosts.Undo, error)
	master string   // the master address in the command; "" means the first word that hostname -I prints on node 0
	named  []string // the nodes that preflight must name; nil if the job works
	luck   bool     // the job works in spite of the fault, and preflight only warns
}

var (
	none = fault{name: "none", plant: func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) { return nil, nil }}
	// The port of the store is below the ephemeral range, and the ranks' own listeners are in this
	// range.
	firewalled = fault{name: "ephemeral-dropped", named: []string{"w3"}, plant: func(ctx context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		return c.Nodes[2].Drop(testhosts.Ephemeral)
	}}
	docker0 = fault{name: "docker0-first", named: []string{"w1"}, plant: onEvery((*testhosts.Node).AddDocker0First)}
	// With Debian's default for the node's own name, every rank listens on its loopback interface.
	loopback = fault{name: "loopback-names", named: []string{"w1", "w2", "w3", "w4"}, plant: onEvery((*testhosts.Node).LoopbackHostname)}
	// Of two ranks, the rank with the larger address opens the connection. gloo compares the
	// addresses byte by byte (gloo, gloo/transport/tcp/pair.cc). 127.0.1.1 is larger than
	// 10.77.1.4, so no rank connects to the only rank that cannot be reached. In 192.168.0.0/16 all
	// other ranks would connect to it.
	lucky = fault{name: "loopback-name-of-one", named: []string{"w3"}, luck: true, plant: func(_ context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		return c.Nodes[2].LoopbackHostname()
	}}
	// With torchrun's c10d, a node is the host of an endpoint only if the node's own name resolves
	// to the endpoint's address. In this fault no node is the host.
	hostless = fault{name: "loopback-name-of-host", named: []string{"w1"}, plant: func(_ context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		return c.Nodes[0].LoopbackHostname()
	}}
	nameless = fault{name: "no-name", named: []string{"w3"}, master: "w1", plant: func(_ context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		return c.Nodes[2].ForgetName("w1")
	}}
)

// onEvery returns a fault of all nodes that is never undone.
func onEvery(plant func(*testhosts.Node) (testhosts.Undo, error)) func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) {
	return func(_ context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		for _, n := range c.Nodes {
			if _, err := plant(n); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// launches returns the launches to try. With the oldest torch it returns only some of them.
func launches() []trial {
	all := releases()
	oldest, current := all[0], all[len(all)-1]
	venvs := filepath.Join(filepath.Dir(current.python), "../..")
	var trials []trial
	for _, l := range []struct {
		release release
		mode    mode
		faults  []fault
	}{
		{current, deepspeed, []fault{none, firewalled, docker0, loopback, lucky, nameless}},
		{current, static, []fault{none, firewalled, docker0, nameless}},
		{current, elastic, []fault{none, firewalled, docker0, hostless, nameless}},
		{oldest, deepspeed, []fault{none, firewalled, docker0, loopback, lucky}},
		{oldest, static, []fault{none}},
		{oldest, elastic, []fault{none, hostless}},
	} {
		for _, f := range l.faults {
			trials = append(trials, trial{release: l.release, venvs: venvs, mode: l.mode, fault: f})
		}
	}
	return trials
}

// TestTorchrun launches a real job on four hosts and runs preflight for the same launch.
// preflight's verdict must agree with the result of the job, and preflight must name the nodes with
// the fault.
func TestTorchrun(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "job.py"), []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := preflight(t)
	started := map[string]*torch{}
	patience := map[string]time.Duration{}
	for _, tr := range launches() {
		name := tr.release.name
		if started[name] == nil {
			began := time.Now()
			started[name] = tr.release.start(t)
			// Nodes that share this machine import torch one after another.
			patience[name] = 9*time.Second + 3*time.Since(began)
		}
		tr.version, tr.patience, tr.shared, tr.binary = started[name].version, patience[name], shared, binary
		if tr.works() {
			tr.patience = time.Minute // the limit may be long if no rank waits in vain
		}
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel() // most of the rows mostly wait
			tr.run(t)
		})
	}
}

// trial is one launch with one fault, on its own cluster.
type trial struct {
	release  release
	version  string
	patience time.Duration // how long a rank waits for the others
	venvs    string        // the directory into which setup.sh installs
	shared   string        // a directory that the nodes can see, with the job in it
	binary   string        // path of preflight
	mode     mode
	fault    fault
	master   string
}

func (tr trial) name() string {
	return fmt.Sprintf("torch%s-%s-%s", tr.release.name, tr.mode, tr.fault.name)
}

// works reports whether the job can work.
func (tr trial) works() bool { return len(tr.fault.named) == 0 || tr.fault.luck }

func (tr trial) run(t *testing.T) {
	c := testhosts.RaiseFor(t, testhosts.Options{Name: "torchrun", Nodes: 4, Slots: 1, Share: []string{tr.shared, tr.venvs, filepath.Dir(tr.binary)}})
	if _, err := tr.fault.plant(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if tr.master = tr.fault.master; tr.master == "" {
		tr.master = firstAddress(t, c.Nodes[0])
	}
	report := tr.judge(t, c)
	var ranks []*rank
	works := tr.works()
	if !*unlaunched {
		ranks = tr.launch(t, c)
		works = !slices.ContainsFunc(ranks, func(r *rank) bool { return !r.done() })
	}
	log := fmt.Sprintf("torch %s, %s, fault %s\n%s", tr.version, tr.mode, tr.fault.name, logOf(ranks))
	if *logs && ranks != nil && !works {
		log := strings.NewReplacer(tr.venvs, "/venvs", tr.shared, "/shared").Replace(log)
		if err := os.WriteFile(filepath.Join("../explain/testdata/logs", tr.name()+".log"), []byte(log), 0o644); err != nil {
			t.Error(err)
		}
	}
	if works != tr.works() {
		t.Errorf("the job works: %v\n%s", works, log)
	}
	if works != (report.ExitCode == 0) {
		t.Errorf("the job works: %v, and preflight ends with %d: %+v", works, report.ExitCode, report.Findings)
	}
	verdict := "fail"
	if tr.fault.luck {
		verdict = "warn"
	}
	if named := report.blamed(verdict); !slices.Equal(named, tr.fault.named) {
		t.Errorf("preflight names %v, want %v: %+v", named, tr.fault.named, report.Findings)
	}
}

// firstAddress returns the address that DeepSpeed uses for the master (deepspeedai/DeepSpeed,
// deepspeed/launcher/runner.py).
func firstAddress(t *testing.T, n *testhosts.Node) string {
	t.Helper()
	out, err := n.Run(t.Context(), "hostname", "-I")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)[0]
}

// rank is one node's part of a job and its result.
type rank struct {
	node    string
	output  bytes.Buffer
	err     error
	seconds float64
}

// done reports whether the rank has completed the job. The exit status is less reliable, because an
// interpreter sometimes aborts when it ends ("terminate called without an active exception", torch
// 2.15).
func (r *rank) done() bool { return strings.Contains(r.output.String(), "job done\n") }

func (tr trial) endpoint() string { return net.JoinHostPort(tr.master, strconv.Itoa(tr.mode.port())) }

// command returns the command that is typed on node i.
func (tr trial) command(ctx context.Context, c *testhosts.Cluster, i int) *testhosts.Cmd {
	argv := []string{tr.release.python}
	node, world, port := strconv.Itoa(i), strconv.Itoa(len(c.Nodes)), strconv.Itoa(tr.mode.port())
	seconds := strconv.Itoa(int(tr.patience.Seconds()))
	if tr.mode != deepspeed {
		argv = append(argv, "-m", "torch.distributed.run", "--nnodes", world, "--nproc_per_node", "1")
		if tr.release.generation == facts.GenerationLegacy {
			// Debian's Python 3.11 iterates over an IntFlag without its 0. This torch release does
			// not expect that, and the defaults of both options are 0.
			argv = append(argv, "--redirects", "1", "--tee", "1")
		}
	}
	switch tr.mode {
	case static:
		argv = append(argv, "--node_rank", node, "--master_addr", tr.master, "--master_port", port, "--rdzv_conf", "timeout="+seconds)
	case elastic:
		argv = append(argv, "--rdzv_backend", "c10d", "--rdzv_id", "oracle", "--rdzv_endpoint", tr.endpoint(),
			"--rdzv_conf", "join_timeout="+seconds+",read_timeout="+seconds)
	}
	cmd := c.Nodes[i].Command(ctx, append(argv, filepath.Join(tr.shared, "job.py"), seconds)...)
	// Use one thread, because four nodes share the processors of this machine.
	cmd.Env = append(cmd.Env, "OMP_NUM_THREADS=1", "PYTHONUNBUFFERED=1")
	if tr.mode == deepspeed {
		cmd.Env = append(cmd.Env, "RANK="+node, "LOCAL_RANK=0", "WORLD_SIZE="+world, "MASTER_ADDR="+tr.master, "MASTER_PORT="+port)
	}
	// torchrun ends its workers when it gets this signal.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// launch runs the job on all nodes at once, and returns when all have ended. After one rank fails,
// the others have a third of the time limit left to report the failure.
func (tr trial) launch(t *testing.T, c *testhosts.Cluster) []*rank {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*tr.patience)
	defer cancel()
	ranks := make([]*rank, len(c.Nodes))
	began := time.Now()
	var all sync.WaitGroup
	for i := range ranks {
		r := &rank{node: c.Nodes[i].Name}
		ranks[i] = r
		cmd := tr.command(ctx, c, i)
		cmd.Stdout, cmd.Stderr = &r.output, &r.output
		all.Go(func() {
			if r.err = cmd.Run(); r.err != nil {
				time.AfterFunc(tr.patience/3, cancel)
			}
			r.seconds = time.Since(began).Seconds()
		})
	}
	all.Wait()
	return ranks
}

func logOf(ranks []*rank) string {
	var text strings.Builder
	for _, r := range ranks {
		text.WriteString(r.String())
	}
	return text.String()
}

func (r *rank) String() string {
	status := "exit status 0"
	if r.err != nil {
		status = r.err.Error()
	}
	return fmt.Sprintf("== %s: %s after %.1f s\n%s", r.node, status, r.seconds, r.output.String())
}

// report contains the fields of preflight's report that these tests use, with their published
// names.
type report struct {
	ExitCode int `json:"exit_code"`
	Findings []struct {
		Check, Verdict, Summary, Got string
		Nodes                        []string
	}
	Checks []struct{ Check, Verdict, Reason string }
}

// blamed returns the nodes that findings with the given verdict name.
func (r report) blamed(verdict string) []string {
	var nodes []string
	for _, f := range r.Findings {
		if f.Verdict == verdict {
			nodes = append(nodes, f.Nodes...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// judge runs preflight for the launch.
func (tr trial) judge(t *testing.T, c *testhosts.Cluster) report {
	t.Helper()
	argv := []string{
		tr.binary, "-H", testhosts.HostfilePath, "--accelerator", "cpu",
		"--python", tr.release.python, "--format", "json", "--rendezvous", string(tr.mode),
	}
	switch {
	case tr.mode == elastic:
		argv = append(argv, "--rdzv_endpoint", tr.endpoint())
	case tr.mode == static, tr.fault.master != "": // DeepSpeed finds the address itself
		argv = append(argv, "--master_addr", tr.master)
	}
	cmd := c.Head.Command(t.Context(), argv...)
	cmd.Dir = tr.shared
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %q\n%s", err, out, complaints.String())
	}
	return r
}
