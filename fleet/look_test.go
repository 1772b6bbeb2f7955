// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/agent"
	"preflight/drill"
	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/remote"
)

// mock is a fleet that answers its drills as a healthy fleet does. It records which node was asked
// for what.
type mock struct {
	mu     sync.Mutex
	called []string // "w1 w2" means that w1 called w2 in the mesh
	worlds []int    // the number of nodes in every rendezvous that a node was asked to join
	nodes  []answers
	gates  []chan struct{} // one gate per node, which answers only when its gate is closed
}

// mocked returns a fleet of n nodes at 192.0.2.1 and so on.
func mocked(n int) *mock {
	m := &mock{}
	for i := range n {
		name, address := fmt.Sprintf("w%d", i+1), fmt.Sprintf("192.0.2.%d", i+1)
		gate := make(chan struct{})
		m.gates = append(m.gates, gate)
		network := facts.Net{
			Interfaces: []facts.Interface{{Name: "eth0", Up: true, Running: true, Addresses: []string{address + "/24"}}},
			Routes:     []facts.Route{{Interface: "eth0", Source: address}},
		}
		names := facts.Names{Own: name, Lookups: []facts.Lookup{{Name: name, Addresses: []string{address}}}}
		m.nodes = append(m.nodes, answers{
			"probe": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
				select {
				case <-gate:
				case <-ctx.Done():
					return ctx.Err()
				}
				return tells(facts.Facts{Net: &network, Names: &names})(ctx, params, reply)
			},
			"listen": serves(func(listen mesh.Listen) any {
				var listening []mesh.Listening
				for _, at := range listen.Addresses {
					listening = append(listening, mesh.Listening{Address: at, Ports: []int{40000}})
				}
				return listening
			}, m),
			"serve": serves(func(host drill.Host) any { return drill.Serving{Port: host.Port} }, m),
			"mesh": answersTo(func(calls mesh.Calls) any {
				called := facts.Mesh{Reached: map[string]float64{}, MSS: 1448}
				for _, peer := range calls.Peers {
					m.called = append(m.called, calls.Node+" "+peer.Name)
					called.Reached[peer.Name] = 0.001
				}
				return called
			}, m),
			"join": answersTo(func(join drill.Join) any {
				m.worlds = append(m.worlds, join.World)
				return facts.Rendezvous{Joined: 0.001, Complete: 0.002}
			}, m),
			"login": answersTo(func(logins drill.Logins) any { return facts.Logins{Passed: logins.Peers} }, m),
		})
	}
	return m
}

// answersTo returns a method that answers one question. In the whole fleet only one such method
// answers at a time.
func answersTo[Question any](answer func(Question) any, m *mock) remote.Method {
	return func(_ context.Context, params json.RawMessage, reply remote.Reply) error {
		var question Question
		if err := json.Unmarshal(params, &question); err != nil {
			return err
		}
		m.mu.Lock()
		result := answer(question)
		m.mu.Unlock()
		return reply("answer", agent.Encode(result), false)
	}
}

// serves returns a method that answers and then continues until it is cancelled.
func serves[Question any](answer func(Question) any, m *mock) remote.Method {
	return func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
		if err := answersTo(answer, m)(ctx, params, reply); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func (m *mock) open(nodes ...int) {
	for _, i := range nodes {
		close(m.gates[i-1])
	}
}

// job returns a job on the fleet in which timeout is the time limit per node. It calls then with
// every step of probing and of the drills, such as "mesh began" and "look lost w3".
func (m *mock) job(t *testing.T, timeout time.Duration, then func(step string)) Job {
	t.Helper()
	job := running(t, m.nodes...)
	job.Timeout = timeout
	job.Prediction.MasterAddr = "192.0.2.1"
	job.Progress = func(event Event) {
		step := string(event.Phase) + " " + string(event.Step)
		if event.Node != "" {
			step += " " + event.Node
		}
		then(step)
	}
	return job
}

// whole fails the test unless every node took part in every drill.
func whole(t *testing.T, fleet facts.Fleet) {
	t.Helper()
	var names []string
	for _, node := range fleet.Nodes {
		names = append(names, node.Name)
	}
	for _, node := range fleet.Nodes {
		switch {
		case node.Mesh == nil || node.Rendezvous == nil || node.Logins == nil:
			t.Errorf("%s: mesh %v, rendezvous %v, logins %v, missing %v", node.Name, node.Mesh, node.Rendezvous, node.Logins, node.Missing)
		case !slices.Equal(slices.Sorted(maps.Keys(node.Mesh.Reached)), names):
			t.Errorf("%s reached %v", node.Name, node.Mesh.Reached)
		case len(node.Logins.Passed) != len(names)-1 || node.Rendezvous.Failed != "":
			t.Errorf("%s: logins %v, rendezvous %+v", node.Name, node.Logins, node.Rendezvous)
		}
	}
}

// steps records the steps of a run, in order.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, step)
}

// TestDrillsWaitForEveryNode checks that the node that reports last takes part in every drill. No
// node may be called twice.
func TestDrillsWaitForEveryNode(t *testing.T) {
	for late := 1; late <= 4; late++ {
		t.Run(fmt.Sprintf("w%d", late), func(t *testing.T) {
			t.Parallel()
			m, told, others := mocked(4), steps{}, sync.WaitGroup{}
			others.Add(3)
			job := m.job(t, 4*time.Minute, func(step string) {
				told.add(step)
				if strings.HasPrefix(step, "look ended w") && !strings.HasSuffix(step, fmt.Sprint(late)) {
					others.Done()
				}
			})
			go func() {
				others.Wait()
				m.open(late)
			}()
			for i := range 4 {
				if i+1 != late {
					m.open(i + 1)
				}
			}
			fleet, _ := Look(t.Context(), job)
			whole(t, fleet)
			slices.Sort(m.called)
			if unique := slices.Compact(slices.Clone(m.called)); len(m.called) != 16 || len(unique) != 16 {
				t.Errorf("called: %v, want each of four by each once", m.called)
			}
			if want := []int{4, 4, 4, 4}; !slices.Equal(m.worlds, want) {
				t.Errorf("the nodes joined worlds of %v, want %v", m.worlds, want)
			}
			reported, began := slices.Index(told.all, fmt.Sprintf("look ended w%d", late)), slices.Index(told.all, "rendezvous began")
			if reported < 0 || began < reported {
				t.Errorf("the drills began at step %d, and w%d reported at %d: %v", began, late, reported, told.all)
			}
		})
	}
}

// TestALostNodeCostsItsOwnTime checks that the other nodes run the drills when preflight gives up a
// node.
func TestALostNodeCostsItsOwnTime(t *testing.T) {
	m, told := mocked(4), steps{}
	m.open(1, 2, 3)
	fleet, _ := Look(t.Context(), m.job(t, 8*time.Second, told.add)) // time enough for a busy machine, and for one heartbeat of w4
	reported := slices.Index(told.all, "look ended w4")
	if began := slices.Index(told.all, "mesh began"); reported < 0 || began < reported {
		t.Errorf("the mesh began at step %d, and w4 was given up at %d: %v", began, reported, told.all)
	}
	for _, node := range fleet.Nodes[:3] {
		if node.Mesh == nil || len(node.Mesh.Reached) < 3 || node.Rendezvous == nil || node.Rendezvous.Failed != "" {
			t.Errorf("%s: mesh %+v, rendezvous %+v", node.Name, node.Mesh, node.Rendezvous)
		}
	}
}

// TestInterruptedWait checks that an interrupt ends the wait for the last node. The other nodes
// must then run all drills except those that run alone.
func TestInterruptedWait(t *testing.T) {
	m, others := mocked(4), sync.WaitGroup{}
	m.open(1, 2, 3)
	others.Add(3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	job := m.job(t, 4*time.Minute, func(step string) {
		switch {
		case strings.HasPrefix(step, "look ended w"):
			others.Done()
		case step == "throughput ended w1":
			t.Error("the throughput was measured")
		}
	})
	job.Throughput = time.Minute
	go func() {
		others.Wait()
		time.Sleep(time.Second) // if a node's report is still being stored, an interrupt would give up the node
		cancel()
	}()
	began := time.Now()
	fleet, _ := Look(ctx, job)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the run took %v", took)
	}
	whole(t, facts.Fleet{Nodes: fleet.Nodes[:3]})
	if want := []int{3, 3, 3}; !slices.Equal(m.worlds, want) {
		t.Errorf("the nodes joined worlds of %v, want %v", m.worlds, want)
	}
	for _, node := range fleet.Nodes[:3] {
		if node.Throughput != nil || !strings.Contains(node.Missing[facts.SectionThroughput], "interrupted") {
			t.Errorf("%s: throughput %v, missing %q", node.Name, node.Throughput, node.Missing[facts.SectionThroughput])
		}
	}
	if last := fleet.Nodes[3]; last.Mesh != nil || last.Rendezvous != nil {
		t.Errorf("w4 took part: %+v, %+v", last.Mesh, last.Rendezvous)
	}
}

// TestInterruptedDrills checks that an interrupt ends running drills at once. If the interrupt
// ended the wait for the last node, the drills get interruptedTime.
func TestInterruptedDrills(t *testing.T) {
	for name, c := range map[string]struct {
		waits       bool // the run waits for the last node when the user interrupts
		least, most time.Duration
	}{
		"under way":         {false, 0, interruptedTime},
		"started by it too": {true, interruptedTime, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, reported := mocked(3), sync.WaitGroup{}
			for i := range m.nodes {
				m.nodes[i]["join"], m.nodes[i]["mesh"], m.nodes[i]["login"] = never, never, never
			}
			m.open(1, 2)
			reported.Add(2)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var interrupted time.Time
			interrupt := sync.OnceFunc(func() {
				interrupted = time.Now()
				cancel()
			})
			job := m.job(t, 4*time.Minute, func(step string) {
				switch {
				case step == "look ended w1", step == "look ended w2":
					reported.Done()
				case step == "rendezvous began w1":
					interrupt()
				}
			})
			go func() {
				reported.Wait()
				if c.waits {
					time.Sleep(time.Second) // for the same reason as in TestInterruptedWait
					interrupt()
				} else {
					m.open(3)
				}
			}()
			fleet, _ := Look(ctx, job)
			if took := time.Since(interrupted); took < c.least || took > c.most {
				t.Errorf("the run ended %v after the interrupt", took)
			}
			for _, node := range fleet.Nodes[:2] {
				if !node.Reached || node.Mesh != nil || node.Missing[facts.SectionMesh] == "" {
					t.Errorf("%s: reached %v, mesh %v, missing %v", node.Name, node.Reached, node.Mesh, node.Missing)
				}
			}
		})
	}
}

// TestWhatRunsAlone checks that drills which no other drill may disturb run after the others, one
// at a time.
func TestWhatRunsAlone(t *testing.T) {
	var took []string
	note := func(r *run, _ context.Context, d Drill) {
		for _, m := range r.members {
			took = append(took, fmt.Sprintf("%s %s", d.Section, m.Name))
		}
	}
	all := Drills
	Drills = []Drill{
		{Section: "quiet", Checks: []string{"lucky"}, Last: true, After: "luck", run: note},
		{Section: "luck", Checks: []string{"lucky"}, run: note},
		{Section: "silence", Checks: []string{"lucky"}, Last: true, run: note},
		{Section: "unneeded", Checks: []string{"lucky"}, notTried: func(*run) string { return "not here" }, run: note},
	}
	t.Cleanup(func() { Drills = all })
	job := running(t, answers{}, answers{})
	fleet, _ := Look(t.Context(), job)
	want := []string{"luck w1", "luck w2", "quiet w1", "quiet w2", "silence w1", "silence w2"}
	if diff := cmp.Diff(want, took); diff != "" {
		t.Errorf("which nodes took part (-want +got):\n%s", diff)
	}
	if why := fleet.NotTried["unneeded"]; why != "not here" {
		t.Errorf("not tried because %q", why)
	}
}

// TestALookKeepsNothingOfTheOneBefore makes the launching machine stand still, so that look is
// called twice. The second result must not contain the rehearsal of the first.
func TestALookKeepsNothingOfTheOneBefore(t *testing.T) {
	job := running(t, answers{})
	job.Head = &facts.Node{
		Facts:   facts.Facts{Rehearsal: &facts.Rehearsal{Problem: "it was stopped"}},
		Missing: map[facts.Section]string{facts.SectionRehearsal: "no node was reached"},
	}
	fleet, _ := Look(t.Context(), job)
	if fleet.Head.Rehearsal != nil || fleet.Head.Missing[facts.SectionRehearsal] != "" {
		t.Errorf("kept: %+v, missing %v", fleet.Head.Rehearsal, fleet.Head.Missing)
	}
}

// TestCallsBack checks which calls each pair makes. One of the two calls and the other knocks. The
// knocks become calls only if a call failed after it had connected, because a knock cannot see that.
func TestCallsBack(t *testing.T) {
	const n = 5
	for outcome, isSeenByKnock := range map[facts.PathOutcome]bool{"": true, facts.PathDropped: true, facts.PathSilent: false, facts.PathBlackhole: false} {
		m := mocked(n)
		m.open(1, 2, 3, 4, 5)
		called := map[string]int{} // "w1 calls w2", "w1 knocks w2"
		for _, node := range m.nodes {
			node["mesh"] = answersTo(func(calls mesh.Calls) any {
				result := facts.Mesh{Reached: map[string]float64{}}
				for _, peer := range calls.Peers {
					verb := map[bool]string{false: " calls ", true: " knocks "}[peer.Knock]
					called[calls.Node+verb+peer.Name]++
					if peer.Name == "w3" && calls.Node != "w3" && outcome != "" && (!peer.Knock || isSeenByKnock) {
						result.Failed = append(result.Failed, facts.Path{Peer: peer.Name, Outcome: outcome})
					} else {
						result.Reached[peer.Name] = 0.001
					}
				}
				return result
			}, m)
		}
		seen, _ := Look(t.Context(), m.job(t, 20*time.Second, func(string) {}))
		for _, node := range seen.Nodes {
			fails := outcome != "" && node.Name != "w3"
			if node.Mesh == nil || len(node.Mesh.Reached)+len(node.Mesh.Failed) != n || fails != (len(node.Mesh.Failed) == 1) {
				t.Errorf("%q: %s has %+v, want every node once, and w3 failed: %t", outcome, node.Name, node.Mesh, fails)
			}
			for _, peer := range seen.Nodes {
				if peer.Name == node.Name {
					continue
				}
				calls, knocks := called[node.Name+" calls "+peer.Name], called[node.Name+" knocks "+peer.Name]
				back := called[peer.Name+" calls "+node.Name]
				if isSeenByKnock && (calls+knocks != 1 || calls+back != 1) || !isSeenByKnock && (calls != 1 || knocks > 1) {
					t.Errorf("%q: %s calls %s %d times and knocks %d times, and is called back %d times", outcome, node.Name, peer.Name, calls, knocks, back)
				}
			}
		}
	}
}
