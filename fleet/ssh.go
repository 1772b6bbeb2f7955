package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"preflight/drill"
	"preflight/fleet/agent"
	"preflight/hostfile"
)

const (
	// allLogins is up to how many nodes everybody logs in to everybody; above
	// it, to the next one and to one more by chance.
	allLogins = 8
	// pdshNodes is up to how many nodes what costs each of them whole ssh sessions
	// is tried without being asked for, where the launch could do without.
	pdshNodes = 16
)

func (r *run) noLogins() string {
	switch by := r.Prediction.StartedBy(); {
	case !by.SSH:
		return r.Prediction.WithoutSSH("")
	case !r.Prediction.NodesStartOthers() && len(r.fleet.Nodes) > pdshNodes && !r.AskedFor(checkLogins):
		return fmt.Sprintf("%s logs in from here only, and %d nodes are many: --only %s tries it", by.Name, len(r.fleet.Nodes), checkLogins)
	}
	return ""
}

// logins has every node log in to its peers by its own ssh, as they do for a launcher whose nodes start each other.
// What a node does not come to within the limit is not known.
func (r *run) logins(ctx context.Context, d Drill) {
	n := len(r.members)
	r.each(ctx, Event{Phase: d.Phase}, d.Limit, func(ctx context.Context, i int, m *member) error {
		var peers []string
		for next := 1; next < n && n <= allLogins; next++ {
			peers = append(peers, r.members[(i+next)%n].Name) // not all the first at once: see MaxStartups of sshd_config
		}
		if n > allLogins {
			peers = []string{r.members[(i+1)%n].Name, r.members[(i+2+rand.IntN(n-2))%n].Name}
		}
		if len(peers) == 0 {
			m.miss(d.Section, "no other node was reached")
			return nil
		}
		seen, err := agent.LogIn.Ask(ctx, m.agent, drill.Logins{Peers: peers, Port: r.Prediction.SSHPort, Deadline: d.Limit})
		learn(m, &m.Logins, d.Section, seen, err)
		return err
	})
}

const (
	// rehearsalTime is what pdsh gets at least to print one line from every node
	// that answered us just before, and rehearsalFactor how much longer than ours
	// its slowest login may take: an account behind a slow directory is slow twice.
	rehearsalTime   = 5 * time.Second
	rehearsalFactor = 3
)

func (r *run) noRehearsal() string {
	switch p, head := r.Prediction, r.fleet.Head; {
	case p.Local, !p.StartedBy().PDSH:
		return "this launch does not start by pdsh"
	case head == nil || head.Launcher == nil || head.Launcher.PDSH == nil:
		return "there is no pdsh on the launching machine"
	case len(r.fleet.Nodes) > pdshNodes && !r.AskedFor(checkRehearsal):
		return fmt.Sprintf("pdsh costs an ssh session a node, and %d nodes are many: --only %s tries it", len(r.fleet.Nodes), checkRehearsal)
	}
	return ""
}

// rehearsal runs the very pdsh that DeepSpeed will run over the nodes that were
// reached, with an echo in place of the training: what it says is compared with
// what our own ssh saw.
func (r *run) rehearsal(ctx context.Context, d Drill) {
	if len(r.members) == 0 {
		r.fleet.Head.Missing[d.Section] = "no node was reached"
		return
	}
	var hosts []string
	limit := rehearsalTime
	for _, m := range r.members {
		if hostfile.HandsOption(m.Name) {
			r.fleet.Head.Missing[d.Section] = fmt.Sprintf("pdsh would hand a part of %q to ssh, which takes it for an option", m.Name)
			return
		}
		hosts = append(hosts, m.Name)
		login := time.Duration((m.SSH.ConnectSeconds + m.SSH.StartSeconds) * float64(time.Second))
		limit = min(max(limit, rehearsalFactor*login), max(r.Timeout, rehearsalTime))
	}
	r.emit(Event{Phase: d.Phase, Step: Began, Until: time.Now().Add(limit)})
	defer r.emit(Event{Phase: d.Phase, Step: Ended})
	seen := drill.Rehearse(ctx, drill.Rehearsal{
		Program: r.fleet.Head.Launcher.PDSH.Path, Hosts: hosts, LauncherArgs: r.Prediction.LauncherArgs, Env: r.Prediction.CommandEnv, Limit: limit,
	})
	r.fleet.Head.Rehearsal = &seen
}
