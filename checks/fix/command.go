package fix

import (
	"regexp"
	"strings"
)

// literal is code, or words for a reader, of the program's own: only a constant that was
// given no type fits, and so no text that was put together at run time.
//
// In it %s stands for the next argument and %[2]s for the second one, %% for a percent
// sign. {nodes} are the nodes of a finding, folded, {node} the first of them, {host} its
// name without a user, {hosts} the like of them all, {hostfile} the file that was read and
// {ssh_port} the option for ssh's port, with a blank, where there is one; any other name in
// braces is an argument that Bind has to give. What follows "   # " is a
// remark for the reader. Code for a node is written as the shell there is to read it.
type literal string

// Command is a line to paste, not yet addressed to the nodes of a finding. Commands that say
// the same are equal.
type Command struct {
	place   place
	at      string // names of other nodes than the finding's, "" for those
	code    string // its arguments written in, its names still open
	remark  string
	refused bool // an argument is no text to paste
}

// place is where a command is typed, and by which way it gets where it runs.
type place int

const (
	here     place = iota // on the launching machine
	onNodes               // typed there, run on nodes over ssh or pdsh
	eachHost              // typed there, once for each host
	console               // typed on the node
	note                  // no command: something to be done
	stated                // the user's own, from a file of theirs
)

// On runs code on the finding's nodes, by ssh on one and by pdsh on several.
func On(code literal, args ...Arg) Command { return newCommand(onNodes, code, args) }

// Here runs code on the launching machine.
func Here(code literal, args ...Arg) Command { return newCommand(here, code, args) }

// EachHost runs code on the launching machine once for each host of the finding, which it
// calls $host.
func EachHost(code literal, args ...Arg) Command { return newCommand(eachHost, code, args) }

// Console is code that somebody types on the node itself.
func Console(code literal, args ...Arg) Command { return newCommand(console, code, args) }

// Note is something to be done that no command does.
func Note(text literal, args ...Arg) Command {
	return Command{place: note}.Remark(text, args...)
}

// Stated is a command that the user states in a file of their own, with {nodes} and the like
// in it, and {ssh} for what runs it on nodes: as they wrote it, arguments aside.
func Stated(text string) Command {
	return Command{place: stated, code: special.ReplaceAllStringFunc(strings.ReplaceAll(text, "%", "%%"), func(found string) string {
		text, _ := marked(found, true)
		return text
	})}
}

func newCommand(p place, code literal, args []Arg) Command {
	text, remark, _ := strings.Cut(string(code), remarkMark)
	c := Command{place: p}
	if p == eachHost {
		text = strings.ReplaceAll(text, "$host", "{each}")
	}
	text, named := marked(text, true)
	c.code, c.refused = write(text, positional(args), true)
	if remark != "" {
		c.remark, _ = marked(remark, false)
		c.remark, _ = write(c.remark, positional(args[min(named, len(args)):]), false)
	}
	return c
}

// At runs the command on these nodes instead of the finding's, where there are any.
func (c Command) At(names ...string) Command {
	if len(names) == 0 {
		return c
	}
	c.at = strings.Join(names, between)
	for _, name := range names {
		c.refused = c.refused || !Host(name).isSafe()
	}
	return c
}

// Locally runs a command for nodes where it is typed, for a finding of the launching machine.
func (c Command) Locally() Command {
	if c.place == onNodes {
		c.place = here
	}
	c.code = strings.ReplaceAll(c.code, open("nodes"), "this machine")
	c.remark = strings.ReplaceAll(c.remark, open("nodes"), "this machine")
	return c
}

// Remark adds to what the reader is told beside the command. One that begins with a comma,
// a colon or a semicolon carries the last one on.
func (c Command) Remark(text literal, args ...Arg) Command {
	added, _ := marked(string(text), false)
	added, _ = write(added, positional(args), false)
	if c.remark != "" && !strings.ContainsAny(added[:1], ",:;") {
		c.remark += "; "
	}
	c.remark += added
	return c
}

// Bind gives arguments to names that the command has in braces. Those it has no value for
// stay open.
func (c Command) Bind(args map[string]Arg) Command {
	var refused bool
	named := func(name string) (Arg, bool) { arg, known := args[name]; return arg, known }
	c.code, refused = write(c.code, named, true)
	c.remark, _ = write(c.remark, named, false)
	c.refused = c.refused || refused
	return c
}

// Lacks reports whether a name in braces is still without an argument.
func (c Command) Lacks() bool {
	for _, name := range openName.FindAllStringSubmatch(c.code+c.remark, -1) {
		if !addressed[name[1]] {
			return true
		}
	}
	return false
}

// UsesSudo reports whether the command asks for root's rights.
func (c Command) UsesSudo() bool {
	return strings.Contains(c.code, open("sudo")) || strings.Contains(c.code, open("sudoedit"))
}

// String tells commands apart, and is for no eyes but a test's.
func (c Command) String() string {
	return strings.Join([]string{string('0' + rune(c.place)), c.at, c.code, c.remark, map[bool]string{true: "refused"}[c.refused]}, "\x1e")
}

// Compare orders commands, any way as long as it is one.
func Compare(a, b Command) int { return strings.Compare(a.String(), b.String()) }

const (
	remarkMark = "   # "
	between    = "\x1f" // between the names of nodes
)

// A name that is still open stands between two control characters, which no argument has.
func open(name string) string { return "\x01" + name + "\x02" }

var (
	openName = regexp.MustCompile("\x01([^\x02]*)\x02")
	// special is what a literal has that is not itself: an argument, a percent sign, a name,
	// and what somebody who is root leaves out.
	special = regexp.MustCompile(`%(?:\[(\d)\])?s|%%|\{([a-z_]+)\}|\b(sudo|sudoedit) `)
)

// addressed are the names that are known once the nodes of a finding are.
var addressed = map[string]bool{"nodes": true, "node": true, "host": true, "hosts": true, "hostfile": true, "each": true, "sudo": true, "sudoedit": true, "ssh": true, "ssh_port": true, "rsh": true}

// marked is a literal with its arguments and names between marks, and the number of its
// arguments.
func marked(text string, isCode bool) (string, int) {
	next, most := 0, 0
	text = special.ReplaceAllStringFunc(text, func(found string) string {
		parts := special.FindStringSubmatch(found)
		switch {
		case found == "%%":
			return "%"
		case parts[1] != "":
			next = int(parts[1][0] - '0')
			most = max(most, next)
			return open(parts[1])
		case strings.HasPrefix(found, "%"):
			next++
			most = max(most, next)
			return open(string('0' + rune(next)))
		case parts[2] != "":
			return open(parts[2])
		case isCode:
			return open(parts[3])
		}
		return found
	})
	return text, most
}

// positional looks up arguments by their place, "1" for the first.
func positional(args []Arg) func(string) (Arg, bool) {
	return func(name string) (Arg, bool) {
		if len(name) != 1 || name[0] < '1' || name[0] > '9' {
			return nil, false
		}
		if at := int(name[0] - '1'); at < len(args) {
			return args[at], true
		}
		panic("fix: a literal names more arguments than it was given")
	}
}
