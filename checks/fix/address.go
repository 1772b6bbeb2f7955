// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/hostfile"
	"preflight/internal/text"
)

// Audience describes the machines for which the commands of a finding are written.
type Audience struct {
	Nodes    []string // the nodes of the finding in hostfile order, nil for the launching machine
	Port     int      // the value of --ssh_port, 0 for none
	Srun     []string // the options of srun if srun replaces ssh, otherwise nil
	Pods     []string // the options of kubectl exec if the nodes are pods, otherwise nil
	Hostfile string   // the path of the hostfile that was read
	// Inside returns the command that enters the container of the ranks on a node, or nil if the
	// ranks run on the node itself.
	Inside func(node string) []string
	IsRoot func(node string) bool // reports whether preflight logs in as root; "" is the launching machine
	// Lacks reports whether a program is known to be missing on a node; "" is the launching
	// machine.
	Lacks func(node, program string) bool
}

// Addressed returns the line to paste. If no command performs the step, isCommand is false and line
// is a note.
func (c Command) Addressed(to Audience) (line string, isCommand bool) {
	nodes := to.Nodes
	if c.at != nil {
		nodes = c.at
	}
	if both := slices.Concat(nodes, to.Nodes); c.packed.literal != "" && len(to.Nodes) > 0 && (to.isBeyondSSH(both) || to.lacksRsync(c, both)) {
		return c.piped(to)
	}
	remote := len(nodes) > 0 && (c.place == onNodes || c.place == stated && strings.Contains(string(c.code.literal), "{ssh}"))
	each := ""
	if c.place == eachHost && len(nodes) == 1 {
		each = hostfile.Bare(nodes[0])
	}
	var words []string
	kept := false // whether the command runs on the machine although the ranks run in a container
	if remote && to.Inside != nil {
		words = to.Inside(nodes[0])
		kept = words != nil && c.isOutside()
	}
	if kept {
		words = nil
	} else if words != nil {
		nodes = to.alike(nodes)
		if len(nodes) < len(to.Nodes) && c.at == nil {
			c = c.Remark(andTheOthers)
		}
	}
	isStrangers := kept || c.place == console && to.Pods != nil // being root in a pod does not make you root on its machine
	code, remark := c.write(to.names(nodes), each, !isStrangers && to.isRoot(nodes, remote || c.place == console))
	line = code.String()
	switch {
	case c.place == note:
		return remark.String(), false
	case (remote || c.place == eachHost) && !areHosts(nodes):
		return "by hand: what these machines are called is no text to paste into a shell", false
	case !arePrintable(words):
		return "by hand: what the ranks run in is no text to paste into a shell", false
	case code.refused && remote:
		return to.remoteShell(nodes) + remarkMark + "and look there by hand: a value in it is no text to paste into a shell", true
	case code.refused:
		return "by hand: a value in it is no text to paste into a shell", false
	case remote && c.place == onNodes:
		line = pasteable(to.handedOn(nodes, line, words))
	case c.place == eachHost && each == "":
		line = "for host in " + strings.Join(bare(nodes), " ") + "; do " + line + "; done"
	}
	if remark.Len() > 0 {
		line += remarkMark + remark.String()
	}
	return line, true
}

const andTheOthers = "and so on each of the others, in what its ranks run in"

// alike returns the nodes that are entered with the same command as the first node.
func (to Audience) alike(nodes []string) []string {
	words := to.inside(nodes[0])
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return !slices.Equal(to.inside(name), words) })
}

func (to Audience) inside(node string) []string {
	if to.Inside == nil {
		return nil
	}
	return to.Inside(node)
}

func arePrintable(words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !isPrintable(word) })
}

// handedOn returns the line that runs code on nodes, as a person types it on the launching machine.
// words are the command that enters the container of the ranks, nil for none.
func (to Audience) handedOn(nodes []string, code string, words []string) string {
	if words != nil {
		code = strings.Join(text.Map(words, text.Quote), " ") + " sh -c " + text.Quote(code)
	} else if to.Srun != nil || to.Pods != nil {
		code = "sh -c " + text.Quote(code)
	}
	switch {
	case to.Srun != nil:
		return to.remoteShell(nodes) + " " + code
	case to.Pods != nil:
		return to.inPods(nodes, " "+code)
	}
	return to.remoteShell(nodes) + " " + oneWord(code)
}

// isRoot reports whether preflight is root on every machine on which a command runs. The command
// then needs no sudo, which many containers lack.
func (to Audience) isRoot(nodes []string, onThem bool) bool {
	if !onThem || len(nodes) == 0 {
		nodes = []string{""}
	}
	return !slices.ContainsFunc(nodes, func(node string) bool { return !to.IsRoot(node) })
}

// names resolves the placeholders of a command that depend on its audience. nodes are the nodes on
// which the command runs.
func (to Audience) names(nodes []string) func(string) (Arg, bool) {
	return func(name string) (Arg, bool) {
		switch {
		case name == "hostfile":
			return Path(to.Hostfile), true
		case name == "ssh_port" && to.Port != 0:
			return raw(fmt.Sprintf("-p %d ", to.Port)), true
		case name == "rsh" && to.Port != 0:
			return raw(fmt.Sprintf(" -e 'ssh -p %d'", to.Port)), true
		case name == "ssh_port", name == "rsh":
			return raw(""), true
		case name == "pods":
			return raw(to.ofKubectl("--context=", "--namespace=")), true
		case name == "cluster":
			return raw(to.ofKubectl("--context=")), true
		case name == "srun_options":
			return raw(behindBlanks(to.Srun)), true
		case name == "slurm_job":
			return jobOf(to.Srun), true
		case len(to.Nodes) == 0:
			return nil, false
		case name == "ssh" && areHosts(nodes):
			return raw(to.remoteShell(nodes)), true
		case name == "nodes" && areHosts(to.Nodes):
			return Word(hostfile.Fold(to.Nodes)), true
		case name == "ssh", name == "nodes":
			return List[Host](",", slices.Concat(nodes, to.Nodes)), true
		case name == "node":
			return Host(to.Nodes[0]), true
		case name == "host":
			return Host(hostfile.Bare(to.Nodes[0])), true
		case name == "hosts":
			return List[Host](" ", bare(to.Nodes)), true
		}
		return nil, false
	}
}

// pasteable returns a command that does not consume the lines after it when several lines are
// pasted together. Otherwise ssh and srun would read those lines as the input of the command. A
// command that opens an editor gets a terminal.
func pasteable(line string) string {
	program, rest, _ := strings.Cut(line, " ")
	switch {
	case program == "ssh" && (strings.Contains(rest, "sudoedit ") || strings.Contains(rest, " vi ")): // for root, sudoedit becomes vi
		return "ssh -t " + rest
	case program == "ssh":
		return "ssh -n " + rest
	case program == "srun":
		return "srun --input=none " + rest
	}
	return line
}

// remoteShell returns the words that, before a command, run the command on nodes.
func (to Audience) remoteShell(nodes []string) string {
	port := to.Port
	switch {
	case to.Srun != nil:
		return fmt.Sprintf("srun --overlap%[3]s --nodes=%[1]d --ntasks=%[1]d --nodelist=%[2]s", len(nodes), text.Quote(hostfile.Fold(bare(nodes))), behindBlanks(to.Srun))
	case to.Pods != nil:
		return to.inPods(nodes[:1], "")
	case len(nodes) == 1 && port == 0:
		return "ssh " + nodes[0]
	case len(nodes) == 1:
		return fmt.Sprintf("ssh -p %d %s", port, nodes[0])
	}
	pdsh := "pdsh -R ssh -w " + text.Quote(hostfile.Fold(nodes))
	if port != 0 {
		return fmt.Sprintf("PDSH_SSH_ARGS_APPEND='-p %d' %s", port, pdsh)
	}
	return pdsh
}

// behindBlanks returns the words, each quoted and with a space before it.
func behindBlanks(all []string) string {
	return strings.Join(append([]string{""}, text.Map(all, text.Quote)...), " ")
}

// jobOf returns the Slurm job in srun's options. The default is the job of the shell that runs the
// command.
func jobOf(srun []string) Arg {
	for _, option := range srun {
		if id, is := strings.CutPrefix(option, "--jobid="); is {
			return Word(id)
		}
	}
	return raw("$SLURM_JOB_ID")
}

// inPods returns a line that runs a command in pods, one pod after another.
func (to Audience) inPods(nodes []string, command string) string {
	options := to.ofKubectl("--")
	if len(nodes) == 1 {
		return "kubectl exec " + hostfile.Bare(nodes[0]) + options + " --" + command
	}
	return "for pod in " + strings.Join(bare(nodes), " ") + "; do kubectl exec $pod" + options + " --" + command + "; done"
}

// ofKubectl returns the kubectl options that begin with one of these prefixes. Some kubectl
// commands do not accept all options of exec.
func (to Audience) ofKubectl(beginnings ...string) string {
	return behindBlanks(slices.DeleteFunc(slices.Clone(to.Pods), func(option string) bool {
		return !slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(option, beginning) })
	}))
}

// oneWord quotes code as one word for the local shell. If possible, it does so without changing any
// character of the code.
func oneWord(code string) string {
	switch {
	case !strings.ContainsAny(code, "|&;<>()$`\"'\\*?[]{}~#!\n"):
		return code
	case !strings.Contains(code, "'"):
		return "'" + code + "'"
	case !changesInDouble.MatchString(code):
		return `"` + code + `"`
	}
	return text.Quote(code)
}

// changesInDouble matches text that a shell interprets inside double quotes.
var changesInDouble = regexp.MustCompile("[\"$`!]|\\\\(\\\\|$)")

func areHosts(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(name string) bool { return !isHost(name) })
}

func bare(nodes []string) []string { return text.Map(nodes, hostfile.Bare) }

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
	case to.startsAgain():
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

// startsAgain reports whether pyxis starts a container that later steps do not see. pyxis removes
// containers without a name after the step.
//
// Source: NVIDIA/pyxis, README.md, --container-name.
func (to Audience) startsAgain() bool {
	option := func(name string) bool {
		return slices.ContainsFunc(to.Srun, func(option string) bool { return strings.HasPrefix(option, name+"=") })
	}
	return option("--container-image") && !option("--container-name")
}
