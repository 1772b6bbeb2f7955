package checks

import (
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

func (b baseline) added(view View, node *facts.Node) Finding {
	return Finding{
		Verdict: Warn, Nodes: []string{node.Name}, Summary: "new since the baseline",
		Got: "in the fleet", Want: "not in the baseline", Remedy: []fix.Command{b.anew(view)},
	}
}

// renamed are the nodes whose machines the baseline knows by other names: one finding, for
// a fleet is renamed as a whole.
func (b baseline) renamed(view View, was map[string]*facts.Node) []Finding {
	var names, now, then []string
	for _, node := range view.Nodes {
		if before := was[node.Name]; before != nil && before.Name != node.Name {
			names = append(names, node.Name)
			now, then = append(now, node.Name), append(then, before.Name)
		}
	}
	if names == nil {
		return nil
	}
	return []Finding{{
		Verdict: Warn, Nodes: names, Summary: "another name than the baseline has for the same machine",
		Got: shortList(now), Want: shortList(then), Remedy: []fix.Command{b.anew(view)},
	}}
}

// lost are the nodes of the baseline that the hostfile of this launch has not. A launch on
// fewer nodes works, and the hostfile may be one that leaves out the broken ones. Where no
// hostfile says who belongs to the fleet, as in a Slurm job, nobody is missed.
func (b baseline) lost(view View, was map[string]*facts.Node) []Finding {
	if view.Launch.HostsFile == "" {
		return nil
	}
	found := map[string]bool{}
	for _, before := range was {
		found[before.Name] = true
	}
	var names []string
	for i := range b.Nodes {
		if !found[b.Nodes[i].Name] {
			names = append(names, b.Nodes[i].Name)
		}
	}
	switch {
	case names == nil:
		return nil
	case b.Unlisted:
		return []Finding{{
			Verdict: Unknown, Nodes: names,
			Summary: "in the baseline and not in this run, and its hostfile, which cannot be read here, would say whether it was left out or is gone",
		}}
	}
	return []Finding{{
		Verdict: Warn, Nodes: names, Summary: "in the baseline, and in the hostfile no more",
		Got: "not in the hostfile", Want: "in the baseline",
		Remedy: []fix.Command{
			fix.Note("left out on purpose, as --good-hosts does: nothing to be done; or judge the whole hostfile with --exclude %s", fix.Word(strings.Join(names, "@"))),
			fix.Here("$EDITOR {hostfile}   # missing by mistake: add %s", fix.Text(hostfile.Fold(names))),
			b.anewWhere(view, fix.Code("they are gone for good")),
		},
	}}
}

// anew is the way out where the change was meant.
func (b baseline) anew(view View) fix.Command { return b.anewWhere(view, fix.Code("this was meant")) }

// anewWhere writes the baseline again, from the same hosts, where something is so.
func (b baseline) anewWhere(view View, so fix.Arg) fix.Command {
	hosts := fix.Code("-H {hostfile}")
	if view.Launch.HostsFile == "" {
		var names []string
		for i := range view.All {
			names = append(names, view.All[i].Name)
		}
		hosts = fix.Code("-w %s", fix.Word(hostfile.Fold(names)))
	}
	return fix.Here("preflight snapshot %s --normalize -o %s   # if %s", hosts, fix.Path(b.File), so)
}

// who is the machine of the baseline that had an id, "" where none or several had it.
func (b baseline) who(id string) (name string) {
	for i := range b.Nodes {
		if idOf(&b.Nodes[i]) != id {
			continue
		}
		if name != "" {
			return ""
		}
		name = b.Nodes[i].Name
	}
	return name
}
