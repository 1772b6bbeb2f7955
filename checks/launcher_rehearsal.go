package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// rehearsalFindings compares what pdsh got from the nodes with what our own
// logins saw there. A node that we did not reach is a finding of the ssh checks.
func rehearsalFindings(view View) []Finding {
	tried := view.Head.Rehearsal
	reached := slices.ContainsFunc(view.All, func(n facts.Node) bool { return n.Reached })
	switch reason := view.Head.Missing[facts.SectionRehearsal]; {
	case slices.ContainsFunc(view.Launch.Notes, func(n hostfile.Note) bool { return strings.HasPrefix(n.Trap, "pdsh-") }):
		return nil // launcher-args names the host that pdsh takes for others
	case tried == nil && reached && reason != "":
		return []Finding{{Verdict: Unknown, Nodes: []string{view.Head.Name}, Summary: "pdsh was not tried over the nodes: " + reason}}
	case tried == nil:
		return nil
	case len(tried.Complaints) > 0 && nobodySaid(tried):
		return []Finding{{
			Nodes: []string{view.Head.Name}, Summary: "pdsh does not get as far as any node",
			Got: tried.Complaints[0], WouldSee: tried.Complaints[0], Remedy: []fix.Command{fix.Here("env | grep -E '^(PDSH|DSH|FANOUT|WCOLL)'"), fix.Here("%s", fix.List[fix.Word](" ", tried.Command))},
		}}
	}
	var findings []Finding
	for rank, said := range tried.Nodes {
		findings = append(findings, rehearsedNode(view, rank, said)...)
	}
	return findings
}

func nobodySaid(tried *facts.Rehearsal) bool {
	return !slices.ContainsFunc(tried.Nodes, func(n facts.RehearsalNode) bool { return len(n.Ranks)+len(n.Errors) > 0 })
}

// rehearsedNode judges what came back from the node whose rank it is.
func rehearsedNode(view View, rank int, said facts.RehearsalNode) []Finding {
	i := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == said.Node })
	if i >= 0 && !view.All[i].Reached {
		return nil
	}
	f := Finding{Nodes: []string{said.Node}}
	switch {
	case i < 0:
		f.Nodes = []string{view.Head.Name}
		f.Summary = fmt.Sprintf("pdsh takes a name of the hostfile for %s, which is not in it", said.Node)
		f.Got, f.Want = ranksOf(said), "the hosts of the hostfile, in its order"
		f.Remedy = []fix.Command{fix.Here("pdsh -R ssh -Q -w %s   # how pdsh reads them", fix.Word(strings.Join(hostNamesOf(view), ",")))}
		f.WouldSee = "IndexError: list index out of range, on the node whose rank has no entry"
	case len(said.Ranks) == 0:
		return []Finding{noEcho(view, said)}
	case !slices.Equal(said.Ranks, []int{rank}):
		f.Summary = "pdsh numbers this node otherwise than the hostfile does"
		f.Got, f.Want = ranksOf(said), fmt.Sprintf("node rank %d", rank)
		f.Remedy = []fix.Command{fix.Here("pdsh -R ssh -Q -w %s   # how pdsh reads the names", fix.Word(strings.Join(hostNamesOf(view), ",")))}
		f.WouldSee = "two nodes that start the same ranks, and a rendezvous that waits for others"
	case len(said.Noise) > 0 && (view.All[i].SSH == nil || len(view.All[i].SSH.Noise) == 0):
		f.Verdict = Warn
		f.Summary = "prints lines of its own when pdsh logs in, which it did not for preflight"
		f.Got = said.Noise[0]
		f.Remedy = []fix.Command{pdshLogin().Remark("anything printed here comes from start-up files")}
		f.WouldSee = "these lines among those of the training"
	default:
		return nil
	}
	return []Finding{f}
}

func ranksOf(said facts.RehearsalNode) string {
	if len(said.Ranks) == 0 {
		return "no answer under that name"
	}
	return "node rank " + strings.Trim(strings.ReplaceAll(fmt.Sprint(said.Ranks), " ", " and "), "[]")
}

func hostNamesOf(view View) []string {
	var names []string
	for _, host := range view.Launch.Hosts {
		names = append(names, host.Name)
	}
	return names
}
