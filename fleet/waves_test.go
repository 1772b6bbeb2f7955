// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/drill"
	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/remote"
)

// mock is a fleet whose drills are answered by what it knows of its network, and that notes
// who was asked for what.
type mock struct {
	mu      sync.Mutex
	secrets map[string]string // by node, as each was told its own
	called  []string          // "w1 w2": a call of the mesh
	worlds  []int             // of every rendezvous that a node was to join
	nodes   []answers
	gates   []chan struct{} // by node: it is seen once its gate is closed
	cut     func(from, to string, wave int) bool
	waves   map[string]int // rendezvous that a node has joined
}

// mocked is a fleet of n nodes at 192.0.2.1 and so on.
func mocked(n int) *mock {
	m := &mock{secrets: map[string]string{}, waves: map[string]int{}, cut: func(string, string, int) bool { return false }}
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
			"probe": func(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
				select {
				case <-gate:
				case <-ctx.Done():
					return ctx.Err()
				}
				return tells(facts.Facts{Net: &network, Names: &names})(ctx, params, reply)
			},
			"listen": serves(func(listen mesh.Listen) any {
				m.secrets[name] = listen.Secret
				var listening []mesh.Listening
				for _, at := range listen.Addresses {
					listening = append(listening, mesh.Listening{Address: at, Ports: []int{40000}})
				}
				return listening
			}, m),
			"serve": serves(func(host drill.Host) any { return drill.Serving{Port: host.Port} }, m),
			"mesh": answersTo(func(calls mesh.Calls) any {
				called := mesh.Called{Mesh: facts.Mesh{Reached: map[string]float64{}, MSS: 1448}, Proofs: map[string]string{}}
				for _, peer := range calls.Peers {
					m.called = append(m.called, calls.Node+" "+peer.Name)
					if m.cut(calls.Node, peer.Name, 0) {
						called.Failed = append(called.Failed, facts.Path{Peer: peer.Name, To: peer.Address, Port: 40000, Outcome: facts.PathDropped})
						continue
					}
					called.Reached[peer.Name] = 0.001
					called.Proofs[peer.Name] = mesh.Proof(m.secrets[peer.Name], calls.Node)
				}
				return called
			}, m),
			"join": answersTo(func(join drill.Join) any {
				m.worlds = append(m.worlds, join.World)
				m.waves[join.Node]++
				if m.cut(join.Node, "store", m.waves[join.Node]) {
					return facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathDropped}
				}
				return facts.Rendezvous{Joined: 0.001, Complete: 0.002}
			}, m),
			"login": answersTo(func(logins drill.Logins) any { return facts.Logins{Passed: logins.Peers} }, m),
		})
	}
	return m
}

// answersTo is a method that answers one question, one at a time in the fleet.
func answersTo[Question any](answer func(Question) any, m *mock) remote.Method {
	return func(_ context.Context, params json.RawMessage, reply func(string, any) error) error {
		var question Question
		if err := json.Unmarshal(params, &question); err != nil {
			return err
		}
		m.mu.Lock()
		said := answer(question)
		m.mu.Unlock()
		return reply("answer", said)
	}
}

// serves is one that goes on until it is cancelled.
func serves[Question any](answer func(Question) any, m *mock) remote.Method {
	return func(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
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

// job is of the fleet, whose nodes have so long. then is called with every step of the drills'
// phases and of looking, as "mesh began", and "look lost w3".
func (m *mock) job(t *testing.T, timeout time.Duration, then func(step string)) Job {
	t.Helper()
	job := running(t, m.nodes...)
	job.Timeout = timeout
	job.Prediction.MasterAddr = "192.0.2.1"
	job.Progress = func(event Event) {
		step := event.Phase.Label + " " + string(event.Step)
		if event.Node != "" {
			step += " " + event.Node
		}
		then(step)
	}
	return job
}

// whole says what is amiss with drills that everybody took part in.
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

// TestAStragglerHoldsUpNobody: the drills begin without it, whichever it is, and it takes part in
// all of them when it comes. Nobody is called twice.
func TestAStragglerHoldsUpNobody(t *testing.T) {
	for late := 1; late <= 4; late++ {
		t.Run(fmt.Sprintf("w%d", late), func(t *testing.T) {
			t.Parallel()
			m := mocked(4)
			var once sync.Once
			job := m.job(t, 4*time.Minute, func(step string) {
				if step == "mesh began" { // else it would be waited for to the end
					once.Do(func() { m.open(late) })
				}
			})
			for i := range 4 {
				if i+1 != late {
					m.open(i + 1)
				}
			}
			fleet, _ := Look(t.Context(), job)
			whole(t, fleet)
			for i, node := range fleet.Nodes {
				if (node.Late > 0) != (i+1 == late) {
					t.Errorf("%s came %v s late", node.Name, node.Late)
				}
			}
			slices.Sort(m.called)
			if unique := slices.Compact(slices.Clone(m.called)); len(m.called) != 16 || len(unique) != 16 {
				t.Errorf("called: %v, want each of four by each once", m.called)
			}
			worlds := map[int]int{}
			for _, world := range m.worlds {
				worlds[world]++
			}
			want := map[int]int{3: 3, 4: 4}
			if late == 1 {
				want = map[int]int{4: 4} // nobody served before
			}
			if diff := cmp.Diff(want, worlds); diff != "" {
				t.Errorf("joined, by the size of the world (-want +got):\n%s", diff)
			}
			if fleet.NotTried[facts.SectionRendezvous] != "" {
				t.Errorf("not tried: %v", fleet.NotTried)
			}
		})
	}
}

// TestALostNodeCostsItsOwnTime: when it is given up, everything is over.
func TestALostNodeCostsItsOwnTime(t *testing.T) {
	m := mocked(4)
	m.open(1, 2, 3)
	var mu sync.Mutex
	var steps []string
	job := m.job(t, 8*time.Second, func(step string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step)
	})
	fleet, _ := Look(t.Context(), job)
	lost := slices.Index(steps, "look ended w4")
	if lost < 0 {
		lost = slices.Index(steps, "look lost w4")
	}
	for _, over := range []string{"rendezvous ended w3", "mesh ended w3", "node logins ended w3"} {
		if at := slices.Index(steps, over); at < 0 || at > lost {
			t.Errorf("%q is step %d, after w4 was lost, %d: %v", over, at, lost, steps)
		}
	}
	for _, node := range fleet.Nodes[:3] {
		if node.Mesh == nil || len(node.Mesh.Reached) != 3 || node.Rendezvous == nil || node.Rendezvous.Failed != "" || node.Late != 0 {
			t.Errorf("%s: mesh %+v, rendezvous %+v", node.Name, node.Mesh, node.Rendezvous)
		}
	}
}

// TestWhatFailedIsNotMadeGood: of a way that failed when it was tried first, and works when all
// are tried once more, it is known that it failed.
func TestWhatFailedIsNotMadeGood(t *testing.T) {
	m := mocked(4)
	m.open(1, 2, 3)
	m.cut = func(from, to string, wave int) bool {
		return from == "w2" && (to == "w3" || to == "store" && wave == 1)
	}
	var once sync.Once
	job := m.job(t, 4*time.Minute, func(step string) {
		if step == "mesh ended w2" {
			once.Do(func() { m.open(4) })
		}
	})
	fleet, _ := Look(t.Context(), job)
	second := fleet.Nodes[1]
	if second.Rendezvous == nil || second.Rendezvous.Failed != facts.HopConnect || m.waves["w2"] != 2 {
		t.Errorf("w2 joined %d times: %+v", m.waves["w2"], second.Rendezvous)
	}
	if second.Mesh == nil || len(second.Mesh.Failed) != 1 || second.Mesh.Failed[0].Peer != "w3" || len(second.Mesh.Reached) != 3 {
		t.Errorf("w2 called: %+v", second.Mesh)
	}
	for _, i := range []int{0, 2, 3} {
		if node := fleet.Nodes[i]; node.Rendezvous == nil || node.Rendezvous.Failed != "" || len(node.Mesh.Reached) != 4 {
			t.Errorf("%s: %+v, %+v", node.Name, node.Rendezvous, node.Mesh)
		}
	}
}

// TestWhoComesLateMayChangeAnAddress: where it holds the address of another, that one is not to
// be called there, and what others said of it there is not told.
func TestWhoComesLateMayChangeAnAddress(t *testing.T) {
	m := mocked(4)
	m.open(1, 2, 3)
	twin := facts.Net{
		Interfaces: []facts.Interface{{Name: "eth0", Up: true, Running: true, Addresses: []string{"192.0.2.3/24"}}},
		Routes:     []facts.Route{{Interface: "eth0", Source: "192.0.2.3"}},
	}
	gate := m.gates[3]
	m.nodes[3]["probe"] = func(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
		<-gate
		return tells(facts.Facts{Net: &twin})(ctx, params, reply)
	}
	var once sync.Once
	job := m.job(t, 4*time.Minute, func(step string) {
		if step == "mesh began" {
			once.Do(func() { m.open(4) })
		}
	})
	fleet, _ := Look(t.Context(), job)
	for i, want := range []int{2, 2, 0, 0} {
		node := fleet.Nodes[i]
		if node.Mesh == nil || len(node.Mesh.Reached) != want {
			t.Errorf("%s: %+v, want %d reached", node.Name, node.Mesh, want)
		}
		if i >= 2 && node.Mesh != nil && node.Mesh.Error != "192.0.2.3 is held by 2 nodes" {
			t.Errorf("%s listened: %q", node.Name, node.Mesh.Error)
		}
	}
}

// TestWhatWasNotSeenStaysSo: what a node could not tell in the first wave is not asked in the
// second, where it would be only a part.
func TestWhatWasNotSeenStaysSo(t *testing.T) {
	m := mocked(4)
	m.open(1, 2, 3)
	m.nodes[2]["login"] = func(context.Context, json.RawMessage, func(string, any) error) error { panic("crashed") }
	var once sync.Once
	job := m.job(t, 4*time.Minute, func(step string) {
		if step == "node logins began" {
			once.Do(func() { m.open(4) })
		}
	})
	fleet, _ := Look(t.Context(), job)
	if last := fleet.Nodes[3]; last.Mesh == nil || len(last.Mesh.Reached) != 4 || last.Logins == nil {
		t.Errorf("w4: %+v", last)
	}
	if third := fleet.Nodes[2]; third.Logins != nil || third.Missing[facts.SectionLogins] == "" {
		t.Errorf("w3: %+v, missing %q", third.Logins, third.Missing[facts.SectionLogins])
	}
}

// TestWhoTakesPart: in the second wave those who came late, in their place, and not who was lost
// in the first. What needs the quiet is tried once, at the end.
func TestWhoTakesPart(t *testing.T) {
	var took []string
	note := func(r *run, _ context.Context, d Drill) {
		for _, m := range r.members {
			name := fmt.Sprintf("%s %s", d.Section, m.Name)
			if m.fresh {
				name += " for the first time"
			}
			took = append(took, name)
			if m.Name == "w3" {
				m.Reached = false
			}
		}
	}
	all := Drills
	Drills = []Drill{{Section: "luck", Checks: []string{"lucky"}, run: note}, {Section: "quiet", Checks: []string{"lucky"}, Last: true, After: "luck", run: note}}
	t.Cleanup(func() { Drills = all })
	came := func(i int) arrival {
		return arrival{i: i, agent: new(remote.Agent), at: time.Now(), node: facts.Node{Name: fmt.Sprintf("w%d", i+1), Reached: true}}
	}
	fleet := facts.Fleet{Nodes: make([]facts.Node, 4)}
	r := Job{SwitchedOff: func(string) string { return "" }}.newRun(&fleet)
	r.take([]arrival{came(3), came(2), came(0)})
	r.wave(t.Context(), false)
	r.take([]arrival{came(1)})
	r.wave(t.Context(), true)
	want := []string{
		"luck w1 for the first time", "luck w3 for the first time", "luck w4 for the first time",
		"luck w1", "luck w2 for the first time", "luck w4", "quiet w1", "quiet w2 for the first time", "quiet w4",
	}
	if diff := cmp.Diff(want, took); diff != "" {
		t.Errorf("who took part (-want +got):\n%s", diff)
	}
}

// TestInterruptedInTheSecondWave: what the first has shown is told.
func TestInterruptedInTheSecondWave(t *testing.T) {
	m := mocked(4)
	m.open(1, 2, 3)
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	job := m.job(t, 4*time.Minute, func(step string) {
		switch step {
		case "mesh began":
			once.Do(func() { m.open(4) })
		case "rendezvous, late began":
			cancel()
		}
	})
	fleet, _ := Look(ctx, job)
	for _, node := range fleet.Nodes[:3] {
		if node.Mesh == nil || node.Rendezvous == nil || !node.Reached {
			t.Errorf("%s: mesh %v, rendezvous %v, missing %v", node.Name, node.Mesh, node.Rendezvous, node.Missing)
		}
	}
	last := fleet.Nodes[3]
	for _, section := range []facts.Section{facts.SectionMesh, facts.SectionRendezvous, facts.SectionLogins} {
		if last.Has(section) == (last.Missing[section] != "") {
			t.Errorf("w4: %s is seen: %v, and missing: %q", section, last.Has(section), last.Missing[section])
		}
	}
}

// TestALookKeepsNothingOfTheOneBefore: where the head stood still, it is looked once more, and what was
// rehearsed in the first look was spoilt by that.
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
