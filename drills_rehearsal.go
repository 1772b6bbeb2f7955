package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"preflight/checks"
	"preflight/drill"
	"preflight/facts"
)

const (
	// rehearsalNodes is up to how many nodes pdsh is run without being asked for:
	// it costs this machine and each node a whole ssh session.
	rehearsalNodes = 16
	// rehearsalTime is what pdsh gets at least to print one line from every node
	// that answered us just before, and rehearsalFactor how much longer than ours
	// its slowest login may take: an account behind a slow directory is slow twice.
	rehearsalTime   = 5 * time.Second
	rehearsalFactor = 3
)

// noRehearsal is why pdsh is not run over the nodes, "" when it is.
func (d *drills) noRehearsal() string {
	p, head := d.Plan.Prediction, d.fleet.Head
	switch {
	case d.Policy.SwitchesOff("launcher-ready"):
		return checks.SwitchedOff
	case p.Local, !p.StartedBy().PDSH:
		return "this launch does not start by pdsh"
	case head == nil || head.Launcher == nil || head.Launcher.PDSH == nil:
		return "there is no pdsh on the launching machine"
	case len(d.fleet.Nodes) > rehearsalNodes && !slices.Contains(d.Policy.Only, "launcher-ready"):
		return fmt.Sprintf("pdsh costs an ssh session a node, and %d nodes are many: --only launcher-ready tries it", len(d.fleet.Nodes))
	}
	return ""
}

// rehearse runs the very pdsh that DeepSpeed will run over the nodes that were
// reached, with an echo in place of the training: what it says is compared with
// what our own ssh saw.
func (d *drills) rehearse(ctx context.Context) {
	if len(d.crew) == 0 {
		d.fleet.Head.Missing[facts.SectionRehearsal] = "no node was reached"
		return
	}
	var hosts []string
	for _, m := range d.crew {
		hosts = append(hosts, m.Name)
	}
	limit := rehearsalTime
	for _, m := range d.crew {
		login := time.Duration((m.SSH.ConnectSeconds + m.SSH.StartSeconds) * float64(time.Second))
		limit = min(max(limit, rehearsalFactor*login), max(d.Timeout, rehearsalTime))
	}
	d.tell(Event{Phase: Rehearsing, Step: Began, Until: time.Now().Add(limit)})
	defer d.tell(Event{Phase: Rehearsing, Step: Ended})
	seen := drill.Rehearse(ctx, drill.Rehearsal{
		Program: d.fleet.Head.Launcher.PDSH.Path, Hosts: hosts, LauncherArgs: d.Plan.Prediction.LauncherArgs, Env: d.Plan.Prediction.CommandEnv, Limit: limit,
	})
	d.fleet.Head.Rehearsal = &seen
}
