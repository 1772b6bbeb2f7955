package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// correctNames rewrites /etc/hosts so that each name leads where it should, or
// looks where the wrong answer comes from when nobody knows better. The file is
// written in place: in a container it is a mount, which sed -i cannot replace.
func correctNames(wrong []wrongName) []fix.Command {
	var commands []fix.Command
	for _, w := range wrong[:min(3, len(wrong))] {
		if !fix.IsPlain(w.name) || !fix.IsPlain(w.cure) || strings.Contains(w.name, "/") {
			commands = append(commands, lookUpName(w.name))
			continue
		}
		commands = append(commands, fix.On(`hosts=$(sed -E "s/[[:space:]]%s([[:space:]]|$)/ /" /etc/hosts; echo %s %s); echo "$hosts" | sudo tee /etc/hosts; getent ahosts %[3]s`, fix.Pattern(w.name), fix.Host(w.cure), fix.Host(w.name)))
	}
	return commands
}

// wrongName is a name that leads elsewhere than it should on some node.
type wrongName struct {
	name       string
	got, right []string // addresses; right is empty when only the node itself has one
	cure       string   // the right address to write down: where the node was reached, if that is one
}

func (t nameTable) wrongNames() (wrong map[string][]wrongName, split []Finding) {
	wrong = map[string][]wrongName{} // by observer
	for _, target := range t.targets {
		right, groups := t.rightAddresses(target)
		if right == nil && len(groups) > 1 {
			split = append(split, splitName(hostfile.Bare(target.Name), groups))
			continue
		}
		cure := strings.Join(right[:min(1, len(right))], "")
		if slices.Contains(right, target.Address) {
			cure = target.Address
		}
		for _, answer := range t.answers[target.Name] {
			if len(answer.Addresses) > 0 && !answer.isOwnLoopback() && !overlap(answer.Addresses, right) {
				wrong[answer.observer] = append(wrong[answer.observer], wrongName{hostfile.Bare(target.Name), answer.Addresses, right, cure})
			}
		}
	}
	return wrong, split
}

// lookUpName shows where a node takes a name from.
func lookUpName(name string) fix.Command {
	return fix.On("grep -nw %s /etc/hosts; getent ahosts %[1]s", fix.Host(name))
}

func splitName(name string, groups []group) Finding {
	f := Finding{
		Summary: name + " leads to different addresses on different nodes, and no address has a majority",
		Remedy:  []fix.Command{lookUpName(name)},
	}
	var parts []string
	for _, g := range groups {
		f.Nodes = append(f.Nodes, g.Nodes...)
		parts = append(parts, g.Value+" on "+hostfile.Fold(g.Nodes))
	}
	f.Got = strings.Join(parts, "; ")
	return f
}

// hostsFix adds the names to /etc/hosts, by the addresses they were reached at.
func hostsFix(targets []*facts.Node) []fix.Command {
	const lines = 4
	var commands []fix.Command
	for _, target := range targets {
		if target.Address != "" && fix.IsPlain(hostfile.Bare(target.Name)) && len(commands) < lines {
			commands = append(commands, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(target.Address), fix.Host(hostfile.Bare(target.Name))))
		}
	}
	if len(commands) < len(targets) {
		commands = append(commands, fix.On("sudoedit /etc/hosts"))
	}
	return commands
}
