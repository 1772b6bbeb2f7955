// SPDX-License-Identifier: Apache-2.0

// Package fix has commands for a person to paste, as values that quote themselves.
//
// What a fix is made of comes from two sides: its code is written here, its arguments are
// from nodes, hostfiles and saved runs, none of which is trusted. The two never meet as
// text. Code is a constant of the program, by its type, or stands in a table that the program
// embeds; everything else is an argument whose type says what it is to a shell, and it is quoted
// for as many shells as read it: one here, a second where ssh or pdsh hands it on. An argument
// that no quoting makes safe, or that stands where none can be, takes the command away: the line
// then says to look by hand.
//
// The package refuses to run anything, and to take code that was put together at run time.
package fix

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// literal is code, or words for a reader, of the program's own: only a constant that was
// given no type fits, and so no text that was put together at run time.
//
// In it %s stands for the next argument and %[2]s for the second one, %% for a percent
// sign. {nodes} are the nodes of a finding, folded, {node} the first of them, {host} its
// name without a user, {hosts} the like of them all, {hostfile} the file that was read and
// {ssh_port} the option for ssh's port, with a blank, where there is one; {pods} and {cluster}
// are the options by which kubectl finds the pods that are nodes, and their cluster alone, {slurm_job}
// is the Slurm job that srun reaches them in and {srun_options} what it takes for that, each option
// behind a blank; any other name in braces is an argument that Bind has to give. What follows "   # " is a remark for the
// reader. Code for a node is written as the shell there is to read it.
type literal string

// Command is a line to paste, not yet addressed to the nodes of a finding.
type Command struct {
	role    Role
	place   place
	side    side     // of what the ranks run in, where they run in something
	at      []string // other nodes than the finding's, nil for those
	code    filled
	packed  filled   // of a copy: what writes it to a pipe, for whom rsync does not reach
	remarks []filled // beside that of the code
	bound   map[string]Arg
}

// Role says what a command is for. Pasting every Fix and Then line of a finding, in their order,
// cures it. "" counts as Fix.
type Role string

const (
	Look Role = "look" // reads only: it shows more, and changes nothing
	Fix  Role = "fix"  // changes something: the first step of the cure
	Then Role = "then" // the next step of the cure, after the line above
	Or   Role = "or"   // an alternative to the Fix and Then lines, or a step that a person must decide
)

// Roles are all of them.
var Roles = []Role{Look, Fix, Then, Or}

// As returns the command in another role.
func (c Command) As(role Role) Command {
	c.role = role
	return c
}

// Role returns what the command is for.
func (c Command) Role() Role { return cmp.Or(c.role, Fix) }

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
func On(code literal, args ...Arg) Command { return Command{place: onNodes, code: filled{code, args}} }

// Here runs code on the launching machine.
func Here(code literal, args ...Arg) Command { return Command{place: here, code: filled{code, args}} }

// EachHost runs code on the launching machine once for each host of the finding, which it
// calls $host.
func EachHost(code literal, args ...Arg) Command {
	return Command{place: eachHost, code: filled{code, args}}
}

// Console is code that somebody types on the node itself.
func Console(code literal, args ...Arg) Command {
	return Command{place: console, code: filled{code, args}}
}

// Note is something to be done that no command does.
func Note(words literal, args ...Arg) Command {
	return Command{place: note, remarks: []filled{{words, args}}}
}

// Stated is a command that the user states in a file of their own, with {nodes} and the like
// in it, and {ssh} for what runs it on nodes: as they wrote it, but for these.
func Stated(code string) Command {
	return Command{place: stated, code: filled{literal: literal(strings.ReplaceAll(code, "%", "%%"))}}
}

// UnmarshalYAML reads a command of a table that the program embeds: its place, and its code or words.
func (c *Command) UnmarshalYAML(node *yaml.Node) error {
	var row map[string]string
	if err := node.Decode(&row); err != nil {
		return err
	}
	role := Role(row["role"])
	delete(row, "role")
	if role != "" && !slices.Contains(Roles, role) {
		return fmt.Errorf("line %d: unknown role %q", node.Line, role)
	}
	if len(row) != 1 {
		return fmt.Errorf("line %d: a command has one place, not %d", node.Line, len(row))
	}
	for place, text := range row {
		code := literal(strings.ReplaceAll(text, "%", "%%"))
		switch place {
		case "here":
			*c = Here(code)
		case "each_host":
			*c = EachHost(code)
		case "on_nodes":
			*c = On(code)
		case "outside":
			*c = On(code).Outside()
		case "inside":
			*c = On(code).Inside()
		case "console":
			*c = Console(code)
		case "note":
			*c = Note(code)
		default:
			return fmt.Errorf("line %d: unknown place %q", node.Line, place)
		}
	}
	c.role = role
	return nil
}

// Said is something to be done in the words of a table, the program's own or one in a file of the
// user's: one line, whatever the file has.
func Said(words string) Command {
	printed := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, words)
	return Command{place: note, remarks: []filled{{literal: literal(strings.ReplaceAll(printed, "%", "%%"))}}}
}

// At runs the command on these nodes instead of the finding's, where there are any.
func (c Command) At(names ...string) Command {
	c.at = names
	return c
}

// side is where a command for nodes runs whose ranks run in something there.
type side int

const (
	bySudo  side = iota // outside what asks for root's rights, which is mostly of the machine
	inside              // what the ranks have for themselves
	outside             // the node itself
)

// Outside runs the command on the node itself, where the ranks run in something there.
func (c Command) Outside() Command {
	c.side = outside
	return c
}

// Inside runs the command in what the ranks run in, where they run in something, though it asks
// for root's rights: it is of files that these have for themselves.
func (c Command) Inside() Command {
	c.side = inside
	return c
}

func (c Command) isOutside() bool { return c.side == outside || c.side == bySudo && c.UsesSudo() }

// Locally runs a command for nodes where it is typed, for a finding of the launching machine.
func (c Command) Locally() Command {
	if c.place == onNodes {
		c.place = here
	}
	return c.Bind(map[string]Arg{"nodes": raw("this machine")})
}

// Remark adds to the words beside the command. One that begins with a comma,
// a colon or a semicolon carries the last one on.
func (c Command) Remark(words literal, args ...Arg) Command {
	c.remarks = append(slices.Clip(c.remarks), filled{words, args})
	return c
}

// Bind gives arguments to names that the command has in braces.
func (c Command) Bind(args map[string]Arg) Command {
	args = maps.Clone(args)
	maps.Copy(args, c.bound)
	c.bound = args
	return c
}

// Lacks reports whether a name in braces is still without an argument.
func (c Command) Lacks() bool {
	code, remark := c.write(func(name string) (Arg, bool) { return raw(""), addressed[name] }, "", false)
	return code.lacks || remark.lacks
}

// addressed are the names that are known once the nodes of a finding are.
var addressed = map[string]bool{
	"nodes": true, "node": true, "host": true, "hosts": true, "hostfile": true, "ssh": true, "ssh_port": true, "rsh": true,
	"pods": true, "cluster": true, "srun_options": true, "slurm_job": true,
}

// UsesSudo reports whether the command asks for root's rights.
func (c Command) UsesSudo() bool {
	code, _ := c.write(nothing, "", false)
	return code.usedSudo
}

// String tells commands apart that are not addressed yet.
func (c Command) String() string {
	code, remark := c.write(nothing, "", false)
	return strings.Join([]string{string(c.Role()), string('0' + rune(c.place)), strings.Join(c.at, ","), code.String(), remark.String()}, "\x00")
}

func nothing(string) (Arg, bool) { return nil, false }

// Is reports whether a command is another one, before either is addressed.
func (c Command) Is(other Command) bool { return c.String() == other.String() }

// Compare orders commands, any way as long as it is one.
func Compare(a, b Command) int { return strings.Compare(a.String(), b.String()) }

// write writes the code of a command and its remarks, with what names stand for that are not
// bound.
func (c Command) write(names func(string) (Arg, bool), each string, asRoot bool) (code, remark *writer) {
	lookUp := func(name string) (Arg, bool) {
		if arg, known := c.bound[name]; known {
			return arg, true
		}
		return names(name)
	}
	code = &writer{names: lookUp, isCode: true, each: each, asRoot: asRoot, remark: &writer{names: lookUp}}
	code.text(c.code)
	for _, r := range c.remarks {
		if code.remark.Len() > 0 && !strings.ContainsAny(string(r.literal[:1]), ",:;") {
			code.remark.WriteString("; ")
		}
		code.remark.text(r)
	}
	return code, code.remark
}
