// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"preflight/agent"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/testhosts"
)

// TestMain lets this test binary replace the process that asks the GPU driver. The replacement acts
// like a slow but healthy driver.
func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], []string{"agent", "nvml"}) {
		os.Exit(m.Run())
	}
	fmt.Println(`{"call":"nvmlInit_v2"}`)
	time.Sleep(slowDriver / 2)
	fmt.Println(`{"system":{"driver":"550.54.15"}}`)
	time.Sleep(slowDriver / 2)
	fmt.Println(`{"done":true}`)
}

// slowDriver is longer than the time limit for the launching machine during planning. It is shorter
// than the time that eight GPUs take to wake up.
const slowDriver = 11 * time.Second

// answers holds methods, by name, that replace those of a real agent.
type answers map[string]remote.Method

// tells returns a method that reports only the facts in seen when the node is probed.
func tells(seen facts.Facts) remote.Method {
	return func(_ context.Context, params json.RawMessage, reply remote.Reply) error {
		var asked agent.Probing
		if err := json.Unmarshal(params, &asked); err != nil {
			return err
		}
		for _, section := range asked.Sections {
			one := agent.Probed{Missing: "not this one"}
			if seen.Has(section) {
				one = agent.Probed{}
				one.Seen.Take(section, seen)
			}
			if err := reply(string(section), agent.Encode(one), false); err != nil {
				return err
			}
		}
		return nil
	}
}

// running returns a job on in-process nodes w1, w2 and so on. Their agents run in this process and
// report only the given answers.
func running(t *testing.T, nodes ...answers) Job {
	t.Helper()
	hosts := make([]testhosts.Host, len(nodes))
	for i, node := range nodes {
		methods := agent.Methods()
		methods["probe"] = tells(facts.Facts{})
		maps.Copy(methods, node)
		hosts[i].Name = fmt.Sprintf("w%d", i+1)
		hosts[i].Exec = func(_ string, stdin io.Reader, stdout, _ io.Writer) int {
			in := bufio.NewReader(stdin)
			if _, err := in.ReadString('\n'); err != nil && err != io.EOF {
				return 1
			}
			if err := remote.Serve(context.Background(), in, stdout, methods); err != nil {
				return 1
			}
			return 0
		}
	}
	stood := testhosts.Start(t, hosts...)
	carrier, err := ssh.New(ssh.Options{Home: stood.Home, SystemConfig: os.DevNull, AgentSocket: "none"})
	if err != nil {
		t.Fatal(err)
	}
	client := remote.New(carrier, remote.Options{})
	t.Cleanup(func() { client.Close() })
	job := Job{
		Head: &facts.Node{}, Remote: client, Timeout: time.Minute,
		SwitchedOff: func(string) string { return "" }, AskedFor: func(string) bool { return false },
	}
	job.Prediction = launch.Prediction{Launcher: "openmpi", MasterAddr: "127.0.0.1", MasterPort: 29500}
	for i := range nodes {
		job.Prediction.Hosts = append(job.Prediction.Hosts, hostfile.Host{Name: fmt.Sprintf("w%d", i+1)})
	}
	return job
}

// never is a method that gives no answer until it is cancelled.
func never(ctx context.Context, _ json.RawMessage, _ remote.Reply) error {
	<-ctx.Done()
	return ctx.Err()
}

// says returns a method with one answer.
func says(answer any) remote.Method {
	return func(_ context.Context, _ json.RawMessage, reply remote.Reply) error {
		return reply("answer", agent.Encode(answer), false)
	}
}

// TestLostServerOfThePeers loses the server of the second rendezvous. That rendezvous must be
// untried, and the first one unchanged.
func TestLostServerOfThePeers(t *testing.T) {
	node := func(name, address string) answers {
		network := facts.Net{
			Interfaces: []facts.Interface{{Name: "eth0", Up: true, Running: true, Addresses: []string{address + "/24"}}},
			Routes:     []facts.Route{{Interface: "eth0", Source: address}},
		}
		names := facts.Names{Own: name, Lookups: []facts.Lookup{{Name: name, Addresses: []string{address}}}}
		return answers{
			"probe": tells(facts.Facts{Net: &network, Names: &names}), "serve": never, "listen": never,
			"join": says(facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathRefused}),
		}
	}
	job := running(t, node("w1", "192.0.2.1"), node("w2", "192.0.2.2"))
	job.Prediction.Launcher, job.Prediction.Rendezvous, job.Prediction.RdzvEndpoint = "", launch.RendezvousC10d, "192.0.2.9:29400"
	fleet, _ := Look(t.Context(), job)
	for _, node := range fleet.Nodes {
		if node.Rendezvous == nil || node.Missing[facts.SectionRendezvous] != "" {
			t.Errorf("%s: the rendezvous of the ranks is %+v, and missing %q", node.Name, node.Rendezvous, node.Missing[facts.SectionRendezvous])
		}
		want := "w1 should have served the store: lost: no answer to serve within 750 ms"
		if got := node.Missing[facts.SectionPeerRendezvous]; node.PeerRendezvous != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: that of the peers is %+v, and missing %q; want %q", node.Name, node.PeerRendezvous, got, want)
		}
	}
}

// TestLookHere checks a launch on this machine only. Every section must be present, missing with a
// reason or not tried, within the time limit of one node.
func TestLookHere(t *testing.T) {
	hangs := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(hangs, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	job := Job{Head: &facts.Node{}, Timeout: 1500 * time.Millisecond}
	job.Prediction = launch.Prediction{Hosts: []hostfile.Host{{Name: "localhost", Slots: []int{0, 1}}}, Interpreter: hangs, WorkDir: t.TempDir()}
	began := time.Now()
	fleet, _ := LookHere(t.Context(), job)
	if took := time.Since(began); took > job.Timeout+time.Second {
		t.Errorf("it took %v, with %v for the node", took, job.Timeout)
	}
	node := fleet.Nodes[0]
	if node.Name != "localhost" || node.Slots != 2 || !node.Reached || node.Host == nil || node.Net == nil {
		t.Errorf("%+v", node)
	}
	if node.Python == nil || node.Python.Problem == "" {
		t.Errorf("python %+v, missing %q: nothing says that it hangs", node.Python, node.Missing[facts.SectionPython])
	}
	for _, section := range facts.Sections() {
		if section == facts.SectionLauncher || strings.HasPrefix(string(section), "peer_") {
			continue // sections of the plan, and drills that run only after a failure
		}
		ways := 0
		for _, way := range []bool{node.Has(section), node.Missing[section] != "", fleet.NotTried[section] != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s: seen %t, missing %q, not tried %q: exactly one must hold", section, node.Has(section), node.Missing[section], fleet.NotTried[section])
		}
	}
}

// TestLookHereTakesTheTimeItIsGiven checks that the time limit of planning does not apply to
// anything else.
func TestLookHereTakesTheTimeItIsGiven(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short, and it waits for a slow driver")
	}
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/driver/nvidia"), 0o700); err != nil {
		t.Fatal(err)
	}
	node := facts.Node{Missing: map[facts.Section]string{}}
	ProbeHere(t.Context(), &node, probe.Options{Root: root, Deadline: 2 * slowDriver}, []facts.Section{facts.SectionNVML})
	if node.NVML == nil || node.NVML.Driver != "550.54.15" || node.NVML.Failure != nil {
		t.Errorf("%+v, missing %q", node.NVML, node.Missing[facts.SectionNVML])
	}
}

// TestEndpointIsAskedByAllAtOnce checks that all nodes wait for a silent endpoint at the same time.
func TestEndpointIsAskedByAllAtOnce(t *testing.T) {
	const nodes = 24
	var asking atomic.Int32
	together := make(chan struct{})
	waits := func(ctx context.Context, _ json.RawMessage, reply remote.Reply) error {
		if asking.Add(1) == nodes {
			close(together)
		}
		select {
		case <-together:
			return reply("answer", agent.Encode(facts.Endpoint{}), false)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Second):
			return errors.New("not everybody has asked by now")
		}
	}
	job := running(t, slices.Repeat([]answers{{"endpoint": waits}}, nodes)...)
	_, asked := AskEndpoint(t.Context(), job, "127.0.0.1:1")
	for _, node := range asked {
		if node.Seen == nil {
			t.Fatalf("%s: %s (%+v)", node.Name, node.Lost, node.SSH)
		}
	}
}

// TestNewDrill checks that one row is enough for a new drill. The drill must run, appear in the
// progress, be left out with a reason, and be missing if its node is lost.
func TestNewDrill(t *testing.T) {
	const section facts.Section = "luck"
	phase := Phase("luck")
	var mu sync.Mutex
	var tried []string
	Drills = append(Drills, Drill{
		Section: section, Phase: phase, Checks: []string{"lucky"}, Limit: time.Second,
		notTried: func(r *run) string {
			if r.Throughput > 0 {
				return "not while measuring"
			}
			return ""
		},
		run: func(r *run, ctx context.Context, d Drill) {
			r.each(ctx, d.Phase, r.members, d.Limit, func(_ context.Context, m *member) error {
				mu.Lock()
				defer mu.Unlock()
				tried = append(tried, m.Name)
				return nil
			})
		},
	})
	t.Cleanup(func() { Drills = Drills[:len(Drills)-1] })
	look := func(change func(*Job)) (seen facts.Fleet, steps []string) {
		tried = nil
		job := running(t, answers{"serve": never}, answers{"serve": never}, answers{"probe": func(context.Context, json.RawMessage, remote.Reply) error {
			return errors.New("it is broken")
		}})
		job.Prediction.Hosts = append(job.Prediction.Hosts, hostfile.Host{Name: "nobody.invalid"})
		job.Progress = func(event Event) {
			if event.Phase == phase {
				mu.Lock()
				defer mu.Unlock()
				steps = append(steps, fmt.Sprintf("%s %s", event.Step, event.Node))
			}
		}
		change(&job)
		seen, _ = Look(t.Context(), job)
		slices.Sort(steps)
		return seen, steps
	}

	fleet, steps := look(func(*Job) {})
	if fleet.NotTried[section] != "" || !slices.Equal(slices.Sorted(slices.Values(tried)), []string{"w1", "w2", "w3"}) {
		t.Errorf("not tried: %q; by %v", fleet.NotTried[section], tried)
	}
	if want := []string{"began ", "began w1", "began w2", "began w3", "ended w1", "ended w2", "ended w3"}; !slices.Equal(steps, want) {
		t.Errorf("progress tells %v, want %v", steps, want)
	}
	if got := fleet.Nodes[3].Missing[section]; got != "not reached" {
		t.Errorf("of a node that was not reached it is missing: %q", got)
	}
	for want, change := range map[string]func(*Job){
		"not while measuring": func(job *Job) { job.Throughput = time.Millisecond },
		"not wanted": func(job *Job) {
			job.SwitchedOff = func(check string) string { return map[string]string{"lucky": "not wanted"}[check] }
		},
	} {
		if fleet, steps = look(change); fleet.NotTried[section] != want || len(tried)+len(steps) > 0 {
			t.Errorf("not tried for %q, want %q; %v, %v", fleet.NotTried[section], want, tried, steps)
		}
	}
	here, _ := LookHere(t.Context(), Job{Head: &facts.Node{}, Timeout: time.Second, Prediction: launch.Prediction{Hosts: []hostfile.Host{{Name: "localhost"}}}})
	if here.NotTried[section] == "" {
		t.Error("of a launch that stays here it is missing, and nobody says why")
	}
}
