// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"slices"
	"strings"

	"preflight/hostfile"
)

// packs has a copy know what writes the path to a pipe: by a name that no tar takes for an
// option, and from the root, for the one in a container need not know -P (busybox has none).
func (c Command) packs(path string) Command {
	named := Path("") // which is refused: where it would lie depends on who looks
	if strings.HasPrefix(path, "/") {
		named = Path("." + path)
	}
	c.packed = filled{"tar -C / -cf - %s", []Arg{named}}
	return c
}

// unpacks reads it from one.
const unpacks = "tar -C / -xf -"

// isBeyondSSH is whether something else than ssh alone leads to what a finding is of: rsync would copy to
// the machine around it, or be let in nowhere.
func (to Audience) isBeyondSSH(nodes []string) bool {
	return to.Srun != nil || to.Pods != nil || slices.ContainsFunc(nodes, func(node string) bool { return to.inside(node) != nil })
}

// piped is a copy through what enters the nodes, which needs no more of an engine than that it passes on
// what it is told: `docker cp` knows the containers of one machine, `kubectl cp` is this same
// pipe, and sbcast takes files alone.
func (c Command) piped(to Audience) (line string, isCommand bool) {
	nodes := to.alike(to.Nodes)
	if len(nodes) < len(to.Nodes) && c.at == nil {
		c = c.Remark(andTheOthers)
	}
	if c.at != nil {
		nodes = nodes[:1]
	}
	c.code = c.packed
	code, remark := c.write(to.names(nodes), "", false)
	words := slices.Concat(to.inside(nodes[0]), c.from(to))
	switch {
	case to.startsAnew():
		return "have the image, or a directory of --container-mounts, hold it: every step of srun has a new container of --container-image", false
	case !areHosts(slices.Concat(nodes, c.at)):
		return "by hand: what these machines are called is no text to paste into a shell", false
	case !arePrintable(words):
		return "by hand: what the ranks run in is no text to paste into a shell", false
	case code.refused:
		return "by hand: a value in it is no text to paste into a shell", false
	}
	line = code.String()
	if c.at != nil {
		line = to.handedOn(c.at, line, c.from(to))
	}
	line = to.reading(line, nodes)
	if remark.Len() > 0 {
		line += remarkMark + remark.String()
	}
	return line, true
}

// from is how the node is entered that a copy is of, nil for the launching machine.
func (c Command) from(to Audience) []string {
	if c.at == nil {
		return nil
	}
	return to.inside(c.at[0])
}

// reading has nodes that are entered alike read what a command writes: one step of srun tells all of its tasks, and
// anything else goes to one node at a time.
func (to Audience) reading(command string, nodes []string) string {
	words := to.inside(nodes[0])
	if to.Pods != nil {
		to.Pods = append(slices.Clip(to.Pods), "--stdin")
	}
	if to.Srun != nil {
		return command + " | " + to.handedOn(nodes, unpacks, words)
	}
	if len(nodes) == 1 {
		return command + " | " + to.handedOn([]string{hostfile.Bare(nodes[0])}, unpacks, words)
	}
	return "for host in " + strings.Join(bare(nodes), " ") + "; do " + command + " | " + to.handedOn([]string{"$host"}, unpacks, words) + "; done"
}

// startsAnew is whether pyxis starts a container that no later step sees: those without a name it
// removes behind the step.
//
// Source: NVIDIA/pyxis, README.md, --container-name.
func (to Audience) startsAnew() bool {
	option := func(name string) bool {
		return slices.ContainsFunc(to.Srun, func(option string) bool { return strings.HasPrefix(option, name+"=") })
	}
	return option("--container-image") && !option("--container-name")
}
