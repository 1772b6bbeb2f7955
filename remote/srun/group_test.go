// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

const timeOfMany = 12 * time.Second

// groupOf returns a client of the named nodes, whose agents call back. All of them share a home
// directory that already has the agent.
func groupOf(t *testing.T, callback string, nodes ...string) (client *remote.Client, dir string) {
	t.Helper()
	warm, dir := job(t, time.Minute)
	agent, _, err := warm.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	if err := os.Remove(filepath.Join(dir, "asked")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_JOB_NODELIST", strings.Join(nodes, ","))
	carrier, err := New(nodes, Options{Job: Own(), Timeout: timeOfMany, Callback: callback, Binary: remote.Own})
	if err != nil {
		t.Fatal(err)
	}
	client = remote.New(carrier, remote.Options{Timeout: timeOfMany})
	t.Cleanup(func() { client.Close() })
	return client, dir
}

// talk reaches all nodes at the same time, and makes each node repeat a text.
func talk(t *testing.T, client *remote.Client, nodes []string) (traces map[string]*remote.Trace, failures map[string]error) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	traces, failures = map[string]*remote.Trace{}, map[string]error{}
	for _, node := range nodes {
		all.Go(func() {
			agent, trace, err := client.Reach(t.Context(), node)
			if err == nil {
				err = errors.Join(agent.Call(t.Context(), "echo", strings.Repeat(node, 40_000), remotetest.Nothing), agent.Close())
			}
			mu.Lock()
			defer mu.Unlock()
			traces[node], failures[node] = trace, err
		})
	}
	all.Wait()
	return traces, failures
}

// asked returns the node lists of the sruns in order. Lists with one node are sorted.
func asked(t *testing.T, dir string) (lists []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, list, _ := strings.Cut(line, "--nodelist=")
		list, _, _ = strings.Cut(list, " ")
		lists = append(lists, list)
		if strings.Contains(line, "token") {
			t.Errorf("a command line shows the token: %s", line)
		}
	}
	slices.SortStableFunc(lists, func(a, b string) int { return strings.Count(b, ",") - strings.Count(a, ",") })
	return lists
}

// TestGroup checks that one srun starts the agents of many nodes. A dead node gets an srun of its
// own, and the others are started once more without it.
func TestGroup(t *testing.T) {
	var many []string
	for i := range groupFrom {
		many = append(many, fmt.Sprintf("w%d", i+1))
	}
	few := []string{"w1", "w2", "w3"}
	all := strings.Join(many, ",")
	for _, test := range []struct {
		name  string
		nodes []string
		talks []string
		want  []string
	}{
		{"many", many, many, []string{all}},
		{"few", few, few, few},
		{"one is dead", append(slices.Clone(many), "dead"), many, []string{all + ",dead", all}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, dir := groupOf(t, "", test.nodes...)
			traces, failures := talk(t, client, test.talks)
			for node, err := range failures {
				if err != nil || traces[node].Carrier != Name || traces[node].Uncalled != "" || traces[node].Delivered {
					t.Errorf("%s: %v, %+v", node, err, traces[node])
				}
			}
			got := asked(t, dir)
			if len(got) == len(few) {
				slices.Sort(got)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("sruns of %q, want %q", got, test.want)
			}
		})
	}
}

// TestUncalled checks that agents that cannot call back are started individually, and that the
// reason is reported. The same holds if preflight cannot listen.
func TestUncalled(t *testing.T) {
	busy, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, taken, _ := net.SplitHostPort(busy.Addr().String())
	nodes := []string{"w1", "w2"}
	for _, test := range []struct{ name, callback, why, first string }{
		{"nobody is there", "192.0.2.1:29417", "dial tcp 192.0.2.1:29417: ", "w1,w2"},
		{"the port is taken", "127.0.0.1:" + taken, "address already in use", "w1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, dir := groupOf(t, test.callback, nodes...)
			traces, failures := talk(t, client, nodes)
			for node, err := range failures {
				if err != nil || !strings.Contains(traces[node].Uncalled, test.why) {
					t.Errorf("%s: %v, %q", node, err, traces[node].Uncalled)
				}
			}
			got := asked(t, dir)
			slices.Sort(got)
			if want := slices.Compact([]string{"w1", test.first, "w2"}); !slices.Equal(got, want) {
				t.Errorf("sruns of %q, want %q", got, want)
			}
		})
	}
}

// TestExported checks that srun exports the variable in addition to the variables that the user
// chose.
func TestExported(t *testing.T) {
	for chosen, want := range map[string]string{"": "", "ALL": "", "NONE": "SLURM_EXPORT_ENV=TOLD_BY_PREFLIGHT", "A,B": "SLURM_EXPORT_ENV=A,B,TOLD_BY_PREFLIGHT"} {
		t.Setenv("SLURM_EXPORT_ENV", chosen)
		got := exported(nil, "x")
		if got[len(got)-1] != "TOLD_BY_PREFLIGHT=x" || strings.Join(got[:len(got)-1], " ") != want {
			t.Errorf("%q: %q", chosen, got)
		}
	}
}

// TestPortRange checks the ports that scontrol reports for srun.
func TestPortRange(t *testing.T) {
	for output, want := range map[string][2]int{
		"SrunEpilog              = (null)\nSrunPortRange           = 60001-60100\nSrunProlog = (null)\n": {60001, 60100},
		"SrunPortRange           = 0-0\n": {0, 0},
		"SrunPortRange           = 9-1\n": {0, 0},
		"slurm_load_ctl_conf error\n":     {0, 0},
	} {
		dir := t.TempDir()
		remotetest.Script(t, filepath.Join(dir, "scontrol"), "cat <<end\n"+output+"end")
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		if low, high := portRange(t.Context(), time.Minute); low != want[0] || high != want[1] {
			t.Errorf("%q: %d-%d", output, low, high)
		}
	}
}
