// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/fleet"
	"preflight/remote"
)

// start is when the runs below begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is so many seconds later.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

var (
	meshPhase       = fleet.Phase{Label: "mesh", Together: true}
	throughputPhase = fleet.Phase{Label: "throughput", Together: true}
	pdshPhase       = fleet.Phase{Label: "pdsh"}
)

// moment is a step and when it is taken.
type moment struct {
	second float64
	event  fleet.Event
}

// phaseOf goes through one phase.
func phaseOf(moments ...moment) *phase {
	p := &Progress{}
	for _, m := range moments {
		p.add(at(m.second), m.event)
	}
	return p.phases[0]
}

// announced is the beginning of a phase, and node one of a node that has a minute.
func announced(second float64, name fleet.Phase, nodes int) moment {
	return moment{second, fleet.Event{Phase: name, Step: fleet.Began, Nodes: nodes}}
}

func node(second float64, name fleet.Phase, step fleet.Step, node string) moment {
	return moment{second, fleet.Event{Phase: name, Step: step, Node: node, Until: at(second + 60)}}
}

func TestPhaseState(t *testing.T) {
	reach := func(second float64, step fleet.Step, names ...string) (all []moment) {
		for _, name := range names {
			all = append(all, node(second, fleet.Reaching, step, name))
		}
		return all
	}
	said := func(parts ...[]moment) (all []moment) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	began := []moment{announced(0, fleet.Reaching, 4)}
	names := []string{"w1", "w2", "w3", "w4"}
	throughput := []moment{
		{0, fleet.Event{Phase: throughputPhase, Step: fleet.Began, Nodes: 2, Takes: 3 * time.Second}},
		node(0, throughputPhase, fleet.Began, "w1"), node(0, throughputPhase, fleet.Began, "w2"),
	}
	var hundred, halves []string
	for i := range 100 {
		hundred = append(hundred, fmt.Sprintf("n%03d", i))
	}
	halves = hundred[:50]
	large := said([]moment{announced(0, fleet.Reaching, 100)}, reach(0, fleet.Began, hundred[:51]...), reach(4, fleet.Ended, halves...))
	for name, c := range map[string]struct {
		moments []moment
		second  float64
		want    string
	}{
		"begun":              {said(began, reach(0, fleet.Began, names...)), 0.9, "0 of 4 nodes"},
		"waiting":            {said(began, reach(0, fleet.Began, names...), reach(0.3, fleet.Ended, "w1", "w3")), 3.4, "2 of 4 nodes; waiting 3 s for w[2,4], 57 s more at most"},
		"many":               {said(began, reach(0, fleet.Began, names...)), 2, "0 of 4 nodes; waiting 2 s for w[1-3] and 1 more, 58 s more at most"},
		"the slowest first":  {said(began, reach(0, fleet.Began, "w4"), reach(1, fleet.Began, "w1")), 3, "0 of 4 nodes; waiting 3 s for w[1,4], 57 s more at most"},
		"lost":               {said(began, reach(0, fleet.Began, names...), reach(0.5, fleet.Lost, "w2")), 0.8, "0 of 4 nodes, 1 lost"},
		"over":               {said(began, reach(0, fleet.Began, names...), reach(0.5, fleet.Lost, "w2"), reach(1.25, fleet.Ended, "w1", "w3", "w4")), 9, "3 of 4 nodes, 1 lost, 1.2 s"},
		"hostile":            {said(began, reach(0, fleet.Began, "\x1b[2J\u202ew1\n")), 2, `0 of 4 nodes; waiting 2 s for \x1b[2J\u202ew1 , 58 s more at most`},
		"past its deadline":  {said(began, reach(0, fleet.Began, "w1")), 61, "0 of 4 nodes; waiting 61 s for w1"},
		"a long wait":        {said(began, []moment{{0, fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Node: "w1", Until: at(600)}}}), 180, "0 of 4 nodes; waiting 3 min for w1, 7 min more at most"},
		"one node":           {[]moment{announced(0, fleet.Looking, 1), node(0, fleet.Looking, fleet.Began, "here"), node(0.5, fleet.Looking, fleet.Ended, "here")}, 1, "1 of 1 node, 0.5 s"},
		"some still to come": {said([]moment{announced(0, fleet.Looking, 3)}, []moment{node(0, fleet.Looking, fleet.Began, "w1"), node(0.5, fleet.Looking, fleet.Ended, "w1")}), 0.7, "1 of 3 nodes"},
		"told to be over, long after": {[]moment{announced(0, fleet.Looking, 2), node(0, fleet.Looking, fleet.Began, "w1"), node(0.5, fleet.Looking, fleet.Ended, "w1"),
			{6.6, fleet.Event{Phase: fleet.Looking, Step: fleet.Ended}}}, 7, "1 of 2 nodes, 0.5 s"},
		"this machine's, over": {[]moment{{0, fleet.Event{Phase: pdshPhase, Step: fleet.Began, Until: at(5)}},
			{1.5, fleet.Event{Phase: pdshPhase, Step: fleet.Ended}}}, 2, "1.5 s"},
		"work of a known time":          {throughput, 1.5, "0 of 2 nodes, about 2 s left"},
		"work that should be over":      {throughput, 3.5, "0 of 2 nodes"},
		"work that takes longer":        {throughput, 4.5, "0 of 2 nodes; w[1-2] waiting 4 s for others, 56 s more at most"},
		"one that should be over":       {append(throughput[:3:3], node(3, throughputPhase, fleet.Ended, "w1")), 4.5, "1 of 2 nodes; w2 waiting 4 s for others, 56 s more at most"},
		"no nodes":                      {[]moment{{0, fleet.Event{Phase: pdshPhase, Step: fleet.Began, Until: at(5)}}}, 2, "waiting 2 s, 3 s more at most"},
		"by the rate":                   {large, 4, "50 of 100 nodes, about 4 s left"},
		"too early for a rate":          {said([]moment{announced(0, fleet.Reaching, 100)}, reach(0, fleet.Began, hundred...), reach(0.5, fleet.Ended, halves...)), 1.4, "50 of 100 nodes"},
		"slow as the others are":        {said(began, reach(0, fleet.Began, "w1"), reach(2, fleet.Ended, "w1"), reach(2, fleet.Began, "w2")), 7, "1 of 4 nodes, about 21 s left"},
		"slow nodes tell nothing of it": {said(began, reach(0, fleet.Began, names...), reach(1, fleet.Ended, "w1", "w3")), 5, "2 of 4 nodes; waiting 5 s for w[2,4], 55 s more at most"},
		"no nodes, just begun":          {[]moment{{0, fleet.Event{Phase: pdshPhase, Step: fleet.Began, Until: at(5)}}}, 0.5, "under way"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := phaseOf(c.moments...).state(at(c.second)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDrillsHaveALabel: none is shown as nothing or as another one, and all fit
// their column.
func TestDrillsHaveALabel(t *testing.T) {
	seen := map[string]bool{}
	phases := []fleet.Phase{fleet.Reaching, fleet.Looking, fleet.Asking, Cleaning}
	for _, drill := range fleet.Drills {
		phases = append(phases, drill.Phase)
	}
	for _, phase := range phases {
		if phase.Label == "" || seen[phase.Label] || len(phase.Label) > labelWidth {
			t.Errorf("%q is the label of %+v", phase.Label, phase)
		}
		seen[phase.Label] = true
	}
}

func TestPlainProgress(t *testing.T) {
	p := &Progress{began: start}
	var out strings.Builder
	plain := &plain{to: &out}
	lost := func(second float64, node, why string) moment {
		err := &remote.Error{Host: node, Stage: remote.StageConnect, Cause: remote.Refused, Err: errors.New(why)}
		return moment{second, fleet.Event{Phase: fleet.Reaching, Step: fleet.Lost, Node: node, Err: err}}
	}
	moments := []moment{
		announced(0, fleet.Reaching, 3),
		node(0, fleet.Reaching, fleet.Began, "w1"), node(0, fleet.Reaching, fleet.Began, "w2"), node(0, fleet.Reaching, fleet.Began, "w3"),
		node(0.25, fleet.Reaching, fleet.Ended, "w1"),
		announced(0.25, fleet.Looking, 3), node(0.25, fleet.Looking, fleet.Began, "w1"),
		lost(0.5, "w3", "connection\nrefused"),
		node(0.75, fleet.Looking, fleet.Ended, "w1"),
		lost(22, "w2", "no answer"),
		{22, fleet.Event{Phase: fleet.Looking, Step: fleet.Ended}},
		announced(22.5, meshPhase, 1),
		announced(23, meshPhase, 1),
	}
	for second := 0.0; second < 24; second += 0.5 {
		for len(moments) > 0 && moments[0].second <= second {
			p.add(at(moments[0].second), moments[0].event)
			moments = moments[1:]
		}
		plain.update(at(second), p, false)
	}
	want := `preflight:   0.0 s  log in: begins, 3 nodes
preflight:   0.2 s  look: begins, 3 nodes
preflight:   0.5 s  log in: lost w3: refused: connection refused
preflight:   5.0 s  log in: 1 of 3 nodes, 1 lost; waiting 5 s for w2, 55 s more at most
preflight:  10.0 s  log in: 1 of 3 nodes, 1 lost; waiting 10 s for w2, 50 s more at most
preflight:  20.0 s  log in: 1 of 3 nodes, 1 lost; waiting 20 s for w2, 40 s more at most
preflight:  22.0 s  log in: lost w2: refused: no answer
preflight:  22.0 s  log in: 1 of 3 nodes, 2 lost, 22.0 s
preflight:  22.0 s  look: 1 of 3 nodes, 0.5 s
preflight:  22.5 s  mesh: begins, 1 node
preflight:  23.0 s  mesh: begins, 1 node
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestPlainProgressOfALostFleet: a thousand lost nodes are not a thousand lines.
func TestPlainProgressOfALostFleet(t *testing.T) {
	p := &Progress{began: start}
	p.add(start, announced(0, fleet.Reaching, 1000).event)
	for i := range 1000 {
		p.add(start, fleet.Event{Phase: fleet.Reaching, Step: fleet.Lost, Node: fmt.Sprint("w", i), Err: errors.New("down")})
	}
	var out strings.Builder
	(&plain{to: &out}).update(at(1), p, true)
	if lines := strings.Count(out.String(), "\n"); lines != 1+mostLosses+1 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	if !strings.HasSuffix(out.String(), "log in: 0 of 1000 nodes, 1000 lost, 0.0 s\n") {
		t.Errorf("not all are counted:\n%s", out.String())
	}
}

// TestNobodyLooks: nothing is kept for a show that is not wanted.
func TestNobodyLooks(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, mode := range []string{None, Auto} {
		if displayOf(mode, file) != nil {
			t.Errorf("%s: something is shown", mode)
		}
	}
	if Start(Plain, true).to != nil {
		t.Error("quiet: something is shown")
	}
	if _, is := displayOf(Plain, file).(*plain); !is {
		t.Error("plain lines are not shown where they were asked for")
	}
}
