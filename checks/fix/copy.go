// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"slices"
	"strings"

	"preflight/hostfile"
)

// packs adds the command that writes the files at a path to a pipe. The path begins with "." so
// that tar does not read it as an option. It is relative to / because tar in a container may lack
// -P (busybox does).
func (c Command) packs(path string) Command {
	named := Path("") // an empty Path is refused: a relative path means different places on different machines
	if strings.HasPrefix(path, "/") {
		named = Path("." + path)
	}
	c.packed = filled{"tar -C / -cf - %s", []Arg{named}}
	return c
}

// unpacks is the command that reads the files from a pipe.
const unpacks = "tar -C / -xf -"

// isBeyondSSH reports whether ssh alone does not reach the place where the ranks run. rsync would
// then copy to the machine around the container, or could not log in.
func (to Audience) isBeyondSSH(nodes []string) bool {
	return to.Srun != nil || to.Pods != nil || slices.ContainsFunc(nodes, func(node string) bool { return to.inside(node) != nil })
}

// lacksRsync reports whether rsync is known to be missing at one end of a copy.
func (to Audience) lacksRsync(c Command, nodes []string) bool {
	if c.at == nil {
		nodes = append(slices.Clone(nodes), "") // the launching machine is the source
	}
	return to.Lacks != nil && slices.ContainsFunc(nodes, func(node string) bool { return to.Lacks(node, "rsync") })
}

// piped returns a line that copies files through the command that enters the nodes. The line only
// needs that command to pass on standard input. Other ways are not better: `docker cp` works on one
// machine, `kubectl cp` uses the same pipe, and sbcast copies single files.
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
		line = pasteable(to.handedOn(c.at, line, c.from(to)))
	}
	line = to.reading(line, nodes)
	if remark.Len() > 0 {
		line += remarkMark + remark.String()
	}
	return line, true
}

// from returns the command that enters the container on the source node of a copy. It returns nil
// if the launching machine is the source.
func (c Command) from(to Audience) []string {
	if c.at == nil {
		return nil
	}
	return to.inside(c.at[0])
}

// reading returns the line that pipes the output of command to nodes. All nodes must be entered
// with the same command. One srun step feeds all its tasks. Every other way feeds one node at a
// time.
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

// startsAnew reports whether pyxis starts a container that later steps do not see. pyxis removes
// containers without a name after the step.
//
// Source: NVIDIA/pyxis, README.md, --container-name.
func (to Audience) startsAnew() bool {
	option := func(name string) bool {
		return slices.ContainsFunc(to.Srun, func(option string) bool { return strings.HasPrefix(option, name+"=") })
	}
	return option("--container-image") && !option("--container-name")
}
