// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/fleet"
	"preflight/remote"
)

// start is the start time of the runs below.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at returns the time that is seconds after start.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

const (
	meshPhase fleet.Phase = "mesh"
	pdshPhase fleet.Phase = "pdsh"
)

// moment is a step and its time.
type moment struct {
	second float64
	event  fleet.Event
}

// announced returns the start of a phase. The function node below returns a step of one node.
func announced(second float64, name fleet.Phase, nodes int) moment {
	return moment{second, fleet.Event{Phase: name, Step: fleet.Began, Nodes: nodes}}
}

func node(second float64, name fleet.Phase, step fleet.Step, node string) moment {
	return moment{second, fleet.Event{Phase: name, Step: step, Node: node}}
}

// live returns the progress of a run on a terminal of the given width.
func live(width int) *Progress {
	return &Progress{began: start, width: func() int { return width }}
}

func TestLine(t *testing.T) {
	reach := func(second float64, step fleet.Step, names ...string) (all []moment) {
		for _, name := range names {
			all = append(all, node(second, fleet.Reaching, step, name))
		}
		return all
	}
	names := []string{"w1", "w2", "w3", "w4"}
	all := append([]moment{announced(0, fleet.Reaching, 4)}, reach(0, fleet.Began, names...)...)
	pdsh := moment{0, fleet.Event{Phase: pdshPhase, Step: fleet.Began}}
	for name, c := range map[string]struct {
		moments []moment
		second  float64
		want    string
	}{
		"too early":         {all, 0.6, ""},
		"begun":             {all, 0.9, "log in: 0 of 4 nodes"},
		"waiting":           {slices.Concat(all, reach(0.3, fleet.Ended, "w1", "w3")), 3.4, "log in: 2 of 4 nodes, waiting 3 s for w[2,4]"},
		"many":              {all, 2, "log in: 0 of 4 nodes, waiting 2 s for w[1-3] and 1 more"},
		"the slowest first": {slices.Concat(all[:1], reach(0, fleet.Began, "w4"), reach(1, fleet.Began, "w1")), 3, "log in: 0 of 4 nodes, waiting 3 s for w[1,4]"},
		"lost":              {slices.Concat(all, reach(0.5, fleet.Lost, "w2")), 0.8, "log in: 0 of 4 nodes, 1 lost"},
		"over":              {slices.Concat(all, reach(0.5, fleet.Lost, "w2"), reach(1.25, fleet.Ended, "w1", "w3", "w4")), 9, ""},
		"hostile":           {slices.Concat(all[:1], reach(0, fleet.Began, "\x1b[2J\u202ew1\n")), 2, `log in: 0 of 4 nodes, waiting 2 s for \x1b[2J\u202ew1 `},
		"a long wait":       {slices.Concat(all[:1], reach(0, fleet.Began, "w1")), 180, "log in: 0 of 4 nodes, waiting 3 min for w1"},
		"two phases": {slices.Concat(all, reach(0.3, fleet.Ended, "w1"), []moment{announced(0.3, fleet.Looking, 4), node(0.3, fleet.Looking, fleet.Began, "w1")}), 0.8,
			"log in: 1 of 4 nodes; look: 0 of 4 nodes"},
		"no node at work in one of them": {slices.Concat(all, reach(0.3, fleet.Ended, "w1"), []moment{announced(0.3, fleet.Looking, 4), node(0.3, fleet.Looking, fleet.Began, "w1"),
			node(0.5, fleet.Looking, fleet.Ended, "w1")}), 0.8, "log in: 1 of 4 nodes"},
		"said to be over":              {slices.Concat(all, []moment{{0.5, fleet.Event{Phase: fleet.Reaching, Step: fleet.Ended}}}), 2, ""},
		"the launching machine, early": {[]moment{pdsh}, 0.8, "pdsh: under way"},
		"the launching machine":        {[]moment{pdsh}, 2, "pdsh: waiting 2 s for the launching machine"},
		"the launching machine, over":  {[]moment{pdsh, {1.5, fleet.Event{Phase: pdshPhase, Step: fleet.Ended}}}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := live(100)
			for _, m := range c.moments {
				p.take(at(m.second), m.event)
			}
			want := ""
			if c.want != "" {
				want = "\r" + c.want + "\x1b[K"
			}
			if got := p.update(at(c.second), false); got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

// TestLineIsDrawnOnce checks that an unchanged line is not written again, and that the last update
// clears the line.
func TestLineIsDrawnOnce(t *testing.T) {
	p := live(80)
	p.take(start, announced(0, fleet.Reaching, 1).event)
	p.take(start, node(0, fleet.Reaching, fleet.Began, "w1").event)
	for i, want := range []string{"\rlog in: 0 of 1 node\x1b[K", "", "\r\x1b[K", ""} {
		if got := p.update(at(0.8), i >= 2); got != want {
			t.Errorf("update %d: %q, want %q", i, got, want)
		}
	}
}

// TestDrillsHaveALabel checks that all phases have different labels.
func TestDrillsHaveALabel(t *testing.T) {
	seen := map[fleet.Phase]bool{}
	phases := []fleet.Phase{fleet.Reaching, fleet.Looking, fleet.Asking, Cleaning}
	for _, drill := range fleet.Drills {
		phases = append(phases, drill.Phase)
	}
	for _, phase := range phases {
		if phase == "" || seen[phase] {
			t.Errorf("%q is no phase of its own", phase)
		}
		seen[phase] = true
	}
}

func TestPlainProgress(t *testing.T) {
	p := &Progress{began: start}
	var out strings.Builder
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
	}
	for second := 0.0; second < 24; second += 0.5 {
		for len(moments) > 0 && moments[0].second <= second {
			p.take(at(moments[0].second), moments[0].event)
			moments = moments[1:]
		}
		out.WriteString(p.update(at(second), false))
	}
	want := `preflight:   0.0 s  log in: begins, 3 nodes
preflight:   0.2 s  look: begins, 3 nodes
preflight:   0.5 s  log in: lost w3: refused: connection refused
preflight:   5.0 s  log in: 1 of 3 nodes, 1 lost, waiting 5 s for w2
preflight:  10.0 s  log in: 1 of 3 nodes, 1 lost, waiting 10 s for w2
preflight:  20.0 s  log in: 1 of 3 nodes, 1 lost, waiting 20 s for w2
preflight:  22.0 s  log in: lost w2: refused: no answer
preflight:  22.0 s  log in: ends, 1 of 3 nodes, 2 lost
preflight:  22.0 s  look: ends, 1 of 3 nodes
preflight:  22.5 s  mesh: begins, 1 node
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestPlainProgressOfALostFleet checks that a thousand lost nodes do not make a thousand lines.
func TestPlainProgressOfALostFleet(t *testing.T) {
	p := &Progress{began: start}
	p.take(start, announced(0, fleet.Reaching, 1000).event)
	for i := range 1000 {
		p.take(start, fleet.Event{Phase: fleet.Reaching, Step: fleet.Lost, Node: fmt.Sprint("w", i), Err: errors.New("down")})
	}
	out := p.update(at(1), true)
	if lines := strings.Count(out, "\n"); lines != 1+mostLosses+1 {
		t.Errorf("%d lines:\n%s", lines, out)
	}
	if !strings.HasSuffix(out, "log in: ends, 0 of 1000 nodes, 1000 lost\n") {
		t.Errorf("not all are counted:\n%s", out)
	}
}

// TestNobodyLooks checks that Progress stores nothing that it does not show.
func TestNobodyLooks(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	for name, c := range map[string]struct {
		mode  string
		quiet bool
		none  bool
	}{"none": {None, false, true}, "no terminal": {Auto, false, true}, "quiet": {Plain, true, true}, "plain": {Plain, false, false}} {
		p := Start(c.mode, c.quiet)
		p.Take(announced(0, fleet.Reaching, 1).event)
		p.Stop()
		if p.none != c.none || (len(p.phases) == 0) != c.none {
			t.Errorf("%s: shows nothing is %v, and it keeps %d phases", name, p.none, len(p.phases))
		}
	}
}
