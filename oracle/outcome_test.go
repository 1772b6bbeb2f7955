// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"preflight/testhosts"
)

var (
	outcomes   = flag.String("outcomes", "", "write what became of every launch and what preflight said of it into this directory")
	rehearsed  = flag.Bool("rehearsed", false, "let preflight rehearse every launch")
	once       = flag.Bool("once", false, "try each fault with one launcher")
	unlaunched = flag.Bool("unlaunched", false, "make no launch, and take from the table whether it works")
)

// TestOutcome causes a fault, runs preflight for a launch, and then starts the launch. A launch
// that fails preflight's checks must not train, and a launch that passes them must train.
func TestOutcome(t *testing.T) {
	binary, installed := launchedBy(t)
	for at, p := range faults {
		tried := strings.Fields(p.trains + " " + p.dies)
		if *once { // in turn, so that each launcher is tried with many faults
			tried = tried[at%len(tried):][:1]
		}
		for _, by := range tried {
			i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == by })
			if i < 0 {
				t.Fatalf("%s: there is no launcher %s", p.name, by)
			}
			o := rehearsal{planted: p, launcher: launchers[i], runner: installed, binary: binary, rehearsed: *rehearsed, hollow: *unlaunched && !*rehearsed, trains: slices.Contains(strings.Fields(p.trains), by)}
			if o.trains {
				o.patience = 4 * time.Minute // the limit may be long if no rank waits in vain
			}
			t.Run(by+"/"+p.name, func(t *testing.T) {
				t.Parallel() // some of the rows mostly wait
				o.run(t)
			})
		}
	}
}

// launchedBy returns a preflight and the newest DeepSpeed with its torch, for launches on hosts.
func launchedBy(t *testing.T) (binary string, installed runner) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	binary = preflight(t)
	installed = runners(t)[newestDeepSpeed]
	if installed.bin == "" {
		t.Fatalf("DeepSpeed %s is needed: run oracle/setup.sh", newestDeepSpeed)
	}
	return binary, installed
}

// rehearsal is one launch with one fault, on its own cluster.
type rehearsal struct {
	planted
	launcher
	runner
	trains    bool
	rehearsed bool   // preflight rehearses the launch
	hollow    bool   // nodes have an empty torch, which is imported sooner, if the fault allows it
	slurm     bool   // the hosts have a Slurm
	binary    string // path of preflight
	dir       string // the working directory of the launch, with the training in it
	hosts     *testhosts.Cluster
}

func (o *rehearsal) run(t *testing.T) {
	o.raise(t)
	o.plant(t)
	verdict := o.judge(t)
	trained, seconds, log := o.trains, 0.0, ""
	if !*unlaunched {
		trained, seconds, log = o.launch(t)
	}
	row := fmt.Sprintf("%s under %s: trains %v, after %.0f s; preflight ends with %d, fails %q, warns %q, cannot tell %q %s", o.planted.name, o.launcher.name,
		trained, seconds, verdict.ExitCode, verdict.named("fail"), verdict.named("warn"), verdict.named("unknown"), verdict.complaint)
	t.Log(row)
	if trained != o.trains {
		t.Errorf("the training works: %v, want %v\n%s", trained, o.trains, log)
	}
	agrees := verdict.ExitCode == 2 && o.mayBeUnknown != "" || verdict.ExitCode != 2 && trained == (verdict.ExitCode == 0)
	switch {
	case o.differs != "" && agrees && !o.rehearsed:
		t.Errorf("preflight agrees with the launch now, so the row needs no reason why it differs: %s", o.differs)
	case o.differs != "":
		t.Logf("differs: %s", o.differs)
	case !agrees:
		t.Errorf("the training works: %v, and preflight ends with %d: %s %+v", trained, verdict.ExitCode, verdict.complaint, verdict.Findings)
	}
	if o.warns != "" && !slices.Contains(verdict.named("warn"), o.warns) {
		t.Errorf("preflight does not warn of %s: %+v", o.warns, verdict.Findings)
	}
	if *outcomes != "" {
		findings, _ := json.MarshalIndent(verdict.Findings, "", "\t")
		text := fmt.Sprintf("agrees %v: %s\n%s\n%s", agrees, row, log, findings)
		if err := os.WriteFile(filepath.Join(*outcomes, o.launcher.name+"-"+o.planted.name+".log"), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// raise starts hosts that can see the training, the virtual environments and preflight.
func (o *rehearsal) raise(t *testing.T) {
	t.Helper()
	o.dir = t.TempDir()
	o.hosts = testhosts.RaiseFor(t, testhosts.Options{
		Name: "outcome", Nodes: cmp.Or(o.nodes, 2), Slots: 1, Slurm: o.slurm, Share: []string{o.dir, filepath.Dir(o.binary), filepath.Join(o.bin, "../..")},
	})
	files := map[string]string{"train.py": string(training)}
	for _, n := range o.hosts.Nodes {
		files["hostfile"] += n.Name + " slots=1\n"
	}
	maps.Copy(files, o.files)
	for name, text := range files {
		path := filepath.Join(o.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tools is a script with shell functions for the scripts of faults.
const tools = `set -e
dir=$1 bin=$2 site=$(echo "$2"/../lib/python*/site-packages) libraries=/usr/lib/$(uname -m)-linux-gnu
# alone DIRECTORY: what changes below it from now on changes for this machine alone
alone() {
	mkdir -p /root/.alone
	over=$(mktemp -d -p /root/.alone)
	mkdir "$over/new" "$over/work"
	mount -t overlay -o "lowerdir=$1,upperdir=$over/new,workdir=$over/work" overlay "$1"
}
`

// emptyTorch makes torch an empty module on a node. An import of torch takes two seconds of a
// processor, and with one on each node would be three quarters of the work for a row without a launch.
const emptyTorch = `
echo '"""An empty module."""' >/root/empty.py
mount --bind /root/empty.py "$site/torch/__init__.py"`

// touchesPython matches scripts that may change what python does on a machine.
var touchesPython = regexp.MustCompile(`\$site|\$bin|/lib|python|export|limit|/usr`)

// needsTorch reports whether a node must have the real torch, so that preflight imports what the
// launch imports. That is a node whose installation, environment or limits a fault concerns. No other
// fault can change the result of an import.
func (p planted) needsTorch(node string) bool {
	return p.name == "none" || p.env != nil || p.files[".deepspeed_env"] != "" || slices.ContainsFunc(p.steps, func(s step) bool {
		return (s.where == node || s.where == "nodes" || s.where == "everywhere") && (p.limits || touchesPython.MatchString(s.script))
	})
}

func (o *rehearsal) plant(t *testing.T) {
	t.Helper()
	steps := sh("everywhere", o.installed)
	for _, n := range o.hosts.Nodes {
		if o.hollow && !o.needsTorch(n.Name) {
			steps = append(steps, sh(n.Name, emptyTorch)...)
		}
	}
	for _, step := range append(steps, o.steps...) {
		for _, n := range o.machines(t, step.where) {
			if step.change != nil {
				if _, err := step.change(n); err != nil {
					t.Fatal(err)
				}
			}
			if step.script != "" {
				if out, err := n.Run(t.Context(), "/bin/sh", "-c", tools+step.script, "sh", o.dir, o.bin); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
		}
	}
}

func (o *rehearsal) machines(t *testing.T, where string) []*testhosts.Node {
	t.Helper()
	switch where {
	case "nodes":
		return o.hosts.Nodes
	case "everywhere":
		return o.hosts.Machines()
	}
	n, err := o.hosts.Node(where)
	if err != nil {
		t.Fatal(err)
	}
	return []*testhosts.Node{n}
}

// meets returns the master address that the ranks get.
func (o *rehearsal) meets() string { return cmp.Or(o.master, o.hosts.Nodes[0].Address) }

// typed returns the command line. i is the number of the node, for launchers that are typed on
// every node.
func (o *rehearsal) typed(i int) []string {
	words := slices.Concat([]string{filepath.Join(o.bin, o.program)}, o.words(o, i), o.options)
	words = append(words, "train.py", "--patience", strconv.Itoa(int(o.patience.Seconds())))
	return append(words, o.arguments...)
}

// at returns a Cmd that runs on a machine, in the directory of the launch.
func (o *rehearsal) at(ctx context.Context, n *testhosts.Node, words ...string) *testhosts.Cmd {
	cmd := n.Command(ctx, words...)
	cmd.Dir = o.dir
	path := o.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	cmd.Env = slices.Concat(cmd.Env, []string{"PATH=" + path, "DS_ACCELERATOR=cpu"}, o.launcher.env, o.planted.env)
	return cmd
}

// judge runs preflight for the launch.
func (o *rehearsal) judge(t *testing.T) verdict {
	t.Helper()
	words := []string{o.binary, "--dry-run", "--format", "json", "--accelerator", "cpu", "--timeout", "30s"}
	if o.everywhere {
		words = append(words, "-H", "hostfile")
	}
	if o.rehearsed {
		words = append(words, "--rehearse", "--rehearse-time", "3m")
	}
	words = append(words, "--")
	if o.everywhere {
		words = append(words, o.planted.env...) // the launching machine's shell is not one of those in which the command is typed
	}
	return judged(t, o.at(t.Context(), o.hosts.Head, slices.Concat(words, o.typed(0))...))
}

// launch starts the training, and returns when all of its commands have ended. After one command
// fails, the others have a third of the time limit left to report the failure.
func (o *rehearsal) launch(t *testing.T) (trained bool, seconds float64, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*o.patience)
	defer cancel()
	at := []*testhosts.Node{o.hosts.Head}
	if o.everywhere {
		at = o.hosts.Nodes
	}
	ended := make([]rank, len(at))
	began := time.Now()
	var all sync.WaitGroup
	for i, n := range at {
		r := &ended[i]
		r.node = n.Name
		cmd := o.at(ctx, n, o.typed(i)...)
		cmd.Stdout, cmd.Stderr = &r.output, &r.output
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // torchrun ends its workers when it gets this signal
		cmd.WaitDelay = 2 * time.Second
		all.Go(func() {
			if r.err = cmd.Run(); r.err != nil {
				time.AfterFunc(o.patience/3, cancel)
			}
			r.seconds = time.Since(began).Seconds()
		})
	}
	all.Wait()
	seconds = time.Since(began).Seconds()
	var hosts []string
	for i := range ended {
		log += ended[i].String()
	}
	for _, rank := range ranksIn(t, log) {
		hosts = append(hosts, rank.Host)
	}
	isNode := func(name string) bool {
		return slices.ContainsFunc(o.hosts.Nodes, func(n *testhosts.Node) bool { return n.Name == name })
	}
	if slices.ContainsFunc(hosts, isNode) {
		hosts = slices.Compact(hosts)
	} // otherwise the machines share a hostname, which cannot tell the ranks' machines apart
	return len(hosts) == len(o.hosts.Nodes), seconds, log
}
