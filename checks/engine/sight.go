// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/facts"
)

// sightOf returns the nodes that a check can examine, and why it cannot examine the others.
func (e *evaluation) sightOf(check checks.Check) checks.Sight {
	if !check.OnHead {
		return e.sight(check)
	}
	sight := checks.Sight{Nodes: e.view.Everywhere()}
	if e.fleet.Head == nil {
		sight.Head = "the launching machine was not checked"
	} else if reason := check.Missing(e.fleet.Head); reason != "" {
		sight.Head = "launching machine: " + reason
	}
	return sight
}

// sight computes the sight of a check only once for all checks that need the same sections of the
// nodes.
func (e *evaluation) sight(check checks.Check) checks.Sight {
	needs := fmt.Sprint(check.Rung, check.Needs)
	sight, known := e.sights[needs]
	if !known {
		sight = e.look(check)
		e.sights[needs] = sight
	}
	sight.Unknown = slices.Clone(sight.Unknown) // a copy, because the check changes the findings
	return sight
}

func (e *evaluation) look(check checks.Check) (sight checks.Sight) {
	sight.Nodes = make([]*facts.Node, 0, len(e.fleet.Nodes))
	for i := range e.fleet.Nodes {
		node := &e.fleet.Nodes[i]
		reason := check.Missing(node)
		broke := !node.Reached || node.SSH != nil && node.SSH.Cause != ""
		if check.Beyond(node) || reason != "" && broke {
			switch at := e.stopOf(node); {
			case at.silenced:
				sight.Unknown = append(sight.Unknown, at.finding)
			case at.fails:
				sight.Failed = append(sight.Failed, node.Name)
			default:
				sight.Unreached = append(sight.Unreached, node.Name)
			}
			continue
		}
		if reason != "" {
			sight.Unknown = append(sight.Unknown, checks.Finding{Verdict: checks.Unknown, Nodes: []string{node.Name}, Summary: reason})
			continue
		}
		sight.Nodes = append(sight.Nodes, node)
	}
	return sight
}

// stop describes the failure of the login to a node, and its consequences.
type stop struct {
	finding checks.Finding
	// silenced means that the check that would report the failure is switched off. The finding then
	// appears under each other check, so no node is left out silently.
	silenced bool
	fails    bool // whether the check that reports the failure fails the run
}

// stopOf computes the stop only once per node, because every check asks for it.
func (e *evaluation) stopOf(node *facts.Node) stop {
	at, known := e.stops[node]
	if !known {
		at = e.stopped(node)
		e.stops[node] = at
	}
	return at
}

func (e *evaluation) stopped(node *facts.Node) stop {
	policy := e.view.Policy
	for _, check := range e.ladder {
		rung, f := check.Stopped(node)
		if rung != check.Rung {
			continue
		}
		if policy.SwitchesOff(check.ID) {
			f.Verdict, f.WouldSee = checks.Unknown, ""
			f.Summary = "not reached: " + f.Summary
			return stop{finding: f, silenced: true}
		}
		complete(&f, check)
		return stop{fails: policy.Weigh(check.ID, check.Severity, f.Verdict) == checks.Fail && !e.waivers.waives(f, node.Name)}
	}
	return stop{}
}
