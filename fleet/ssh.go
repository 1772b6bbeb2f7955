// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"preflight/agent"
	"preflight/drill"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/launch"
)

const (
	// allLogins is the largest number of nodes for which every node logs in to every other. In
	// larger fleets each node logs in to the next node and to a random one.
	allLogins = 8
	// pdshNodes is the largest number of nodes for which checks that need a whole ssh session per
	// node run by default. If the launch depends on these checks, they run with any number of
	// nodes.
	pdshNodes = 16
)

func (r *run) noLogins() string {
	switch by := r.Prediction.StartedBy(); {
	case !by.SSH:
		return r.Prediction.WithoutSSH("")
	case !r.Prediction.NodesStartOthers() && len(r.fleet.Nodes) > pdshNodes && !r.AskedFor(checkLogins):
		return fmt.Sprintf("with %s only the launching machine logs in, so the check is off for %d nodes: --only %s runs it", by.Name, len(r.fleet.Nodes), checkLogins)
	}
	return ""
}

// logins makes every node log in to its peers with its own ssh. Nodes do the same for a launcher
// whose nodes start each other. If a node reaches the time limit before it has tried a peer, the
// result for that peer is unknown.
func (r *run) logins(ctx context.Context, d Drill) {
	r.each(ctx, d.Phase, r.members, d.Limit, func(ctx context.Context, m *member) error {
		w := hostsys.BeginWait()
		seen, err := agent.LogIn.Ask(ctx, m.agent, drill.Logins{Peers: r.loginPeers(m), Port: r.Prediction.SSHPort, Deadline: d.Limit})
		if busy(w, m) != "" {
			forgive(&seen)
		}
		learn(m, &m.Logins, d.Section, seen, err)
		return err
	})
}

// forgive marks logins as untried if they failed only because no answer came in time.
func forgive(seen *facts.Logins) {
	seen.Failed = slices.DeleteFunc(seen.Failed, func(login facts.Login) bool {
		late := login.Cause == "timeout"
		if late {
			seen.Untried = append(seen.Untried, login.Peer)
		}
		return late
	})
}

// loginPeers returns the nodes that a member logs in to.
func (r *run) loginPeers(m *member) (peers []string) {
	n := len(r.members)
	ahead := func(by int) string { return r.members[(m.position+by)%n].Name }
	if n > allLogins {
		return []string{ahead(1), ahead(2 + rand.IntN(n-2))}
	}
	for next := 1; next < n; next++ {
		peers = append(peers, ahead(next)) // nodes start with different peers; otherwise many would log in to one node (MaxStartups in sshd_config)
	}
	return peers
}

const (
	// rehearsalTime is the minimum time for pdsh to print one line from every node that has just
	// answered. rehearsalFactor is how many times longer than preflight's slowest login pdsh may
	// take: an account behind a slow directory service is slow in both.
	rehearsalTime   = 5 * time.Second
	rehearsalFactor = 3
)

func (r *run) noRehearsal() string {
	switch p, head := r.Prediction, r.fleet.Head; {
	case p.Srun && head != nil:
		if id, _ := launch.Lookup(head.Env, "SLURM_JOB_ID"); id == "" {
			return "outside a Slurm job, srun would start a job of its own"
		}
		return ""
	case p.Local, !p.StartedBy().PDSH:
		return "this launch does not use pdsh"
	case head == nil || head.Launcher == nil || head.Launcher.PDSH == nil:
		return "pdsh is not installed on the launching machine"
	case len(r.fleet.Nodes) > pdshNodes && !r.AskedFor(checkRehearsal):
		return fmt.Sprintf("pdsh opens one ssh session per node, so the check is off for %d nodes: --only %s runs it", len(r.fleet.Nodes), checkRehearsal)
	}
	return ""
}

// rehearsal runs an echo in place of the training: with the srun of the command, or with the pdsh that
// DeepSpeed will run, over the nodes that were reached. A check compares the output with the results
// of preflight's own connections.
func (r *run) rehearsal(ctx context.Context, d Drill) {
	head := r.fleet.Head
	if len(r.members) == 0 {
		head.Missing[d.Section] = "no node was reached"
		return
	}
	var hosts []string
	limit := rehearsalTime
	for _, m := range r.members {
		if hostfile.HandsOption(m.Name) {
			head.Missing[d.Section] = fmt.Sprintf("pdsh would pass a part of %q to ssh, which would read it as an option", m.Name)
			return
		}
		hosts = append(hosts, m.Name)
		login := time.Duration((m.SSH.ConnectSeconds + m.SSH.StartSeconds) * float64(time.Second))
		limit = min(max(limit, rehearsalFactor*login), max(r.Timeout, rehearsalTime))
	}
	r.emit(Event{Phase: d.Phase, Step: Began})
	defer r.emit(Event{Phase: d.Phase, Step: Ended})
	if r.Prediction.Srun {
		seen := drill.RehearseSrun(ctx, r.Prediction.SrunWords, r.Prediction.HostNames(), max(r.Timeout, rehearsalTime))
		head.Rehearsal = &seen
		return
	}
	seen := drill.Rehearse(ctx, drill.Rehearsal{
		Program: head.Launcher.PDSH.Path, Hosts: hosts, LauncherArgs: r.Prediction.LauncherArgs, Env: r.Prediction.CommandEnv, Limit: limit,
	})
	head.Rehearsal = &seen
}

// rehearseAgain runs pdsh a second time if a node's sshd closed pdsh's connection before the login.
// sshd limits how many logins it handles at a time (MaxStartups in sshd_config). During the first run,
// logins between the nodes count too. During the second run, as during the launch, only pdsh logs in.
func (r *run) rehearseAgain(ctx context.Context) {
	head := r.fleet.Head
	if ctx.Err() == nil && head != nil && head.Rehearsal != nil && !r.Prediction.Srun && slices.ContainsFunc(head.Rehearsal.Nodes, closedEarly) {
		r.rehearsal(ctx, Drill{Section: facts.SectionRehearsal, Phase: pdshAgain})
	}
}

// closedEarly reports whether the node's sshd closed pdsh's connection before the login.
func closedEarly(node facts.RehearsalNode) bool {
	return len(node.Ranks) == 0 && slices.ContainsFunc(node.Errors, func(line string) bool {
		return slices.ContainsFunc([]string{"kex_exchange_identification", "Connection closed by", "Connection reset by"},
			func(says string) bool { return strings.Contains(line, says) })
	})
}
