package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// untried warns of an address that nothing speaks for.
func (m masterPlace) untried() Finding {
	f := m.finding(fmt.Sprintf("the ranks will meet at %s, and whether all nodes reach node 0 there was not tried", m.Host), "")
	f.Verdict = Warn
	return f
}

// anothers is a meeting at another node than the one that will serve.
func (m masterPlace) anothers(place string, holder *facts.Node) Finding {
	f := m.finding(fmt.Sprintf("the ranks will meet at %s, which is %s's address, and rank 0 runs on %s", place, holder.Name, m.first.Name), "nobody serves the store there")
	first := fix.Note("or put %s first in the hostfile: rank 0 runs on its first host", fix.Host(holder.Name))
	if m.view.Launch.Rendezvous == launch.RendezvousStatic {
		first = fix.Note("or start torchrun with --node_rank=0 on %s", fix.Host(holder.Name))
	}
	f.Remedy = append(f.Remedy, first)
	return f
}

// place is the address with the interface that holds it.
func (m masterPlace) place(holder *facts.Node) string {
	if holder == nil {
		return m.Host
	}
	held, _, known := holderOf(holder, m.Host)
	if !known {
		return m.Host
	}
	return fmt.Sprintf("%s (%s)", m.Host, held.Name)
}

// holds says what can be said of all nodes where some were not seen.
func (m masterPlace) holds() string {
	if len(m.view.Nodes) < len(m.view.All) {
		return "that was reached holds"
	}
	return "holds"
}

// finding says what is wrong with the address, and where the ranks could meet.
func (m masterPlace) finding(summary, consequence string) Finding {
	f := Finding{Nodes: []string{m.first.Name}, Summary: summary, Got: m.Rule}
	switch {
	case m.Rule == "":
		f.Got = consequence
	case consequence != "":
		f.Got = m.Rule + "; " + consequence
	}
	if m.Host != "" {
		f.WouldSee = fmt.Sprintf("The client socket has timed out after … while trying to connect to (%s, %d).", m.Host, m.Port)
	}
	f.Want, f.Remedy = m.cure()
	return f
}
