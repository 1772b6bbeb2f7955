// SPDX-License-Identifier: Apache-2.0

// Package fix builds commands for a person to paste. It quotes the arguments of the commands.
//
// A command has two parts. Its code is a constant of this program, or comes from a table that the
// program embeds. Its arguments come from nodes, hostfiles and saved runs, and none of these is
// trusted. The two parts are never joined as text: the type of an argument decides how to quote it.
// An argument is quoted once for each shell that reads it: the local shell, and a second one behind
// ssh or pdsh. If no quoting makes an argument safe in its position, the command is replaced by the
// advice to do the step by hand.
//
// The package runs nothing, and accepts no code that was assembled at run time.
package fix

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"preflight/internal/lazyregexp"
)

// literal is code, or words for a reader. Only untyped constants convert to literal. Text that was
// assembled at run time does not.
//
// %s stands for the next argument, %[2]s for the second one, %% for a percent sign. Names in braces
// stand for these values:
//
//	{node} {nodes}        the first node of the finding, and all of them folded
//	{host} {hosts}        the same without users, all of them listed
//	{hostfile}            the hostfile that was read
//	{ssh_port}            ssh's option for the port with a blank, or nothing
//	{pods} {cluster}      kubectl's options for the pods, and for their cluster only
//	{slurm_job}           the Slurm job through which srun reaches the nodes
//	{srun_options}        srun's options for that, each after a blank
//
// Bind must set the value of any other name. Text after "   # " is a remark for the reader. Code
// for a node is written in the form that the shell on that node must read.
type literal string

// Command is a line to paste that is not yet addressed to the nodes of a finding.
type Command struct {
	role    Role
	place   place
	side    side     // whether the command runs in the container of the ranks, if there is one
	at      []string // the nodes to use instead of the nodes of the finding, nil to use those of the finding
	code    filled
	packed  filled   // for a copy: the command that writes the files to a pipe, used if rsync cannot reach the node
	remarks []filled // remarks in addition to the remark in the code
	bound   map[string]Arg
}

// Role says what a command is for. Pasting all Fix and Then lines of a finding, in their order,
// repairs it. "" counts as Fix.
type Role string

const (
	Look Role = "look" // shows more and changes nothing
	Fix  Role = "fix"  // changes something: the first step of the repair
	Then Role = "then" // the next step of the repair, after the line above
	Or   Role = "or"   // an alternative to the Fix and Then lines, or a step that a person must decide
)

// Roles lists all roles.
var Roles = []Role{Look, Fix, Then, Or}

// As returns a copy of the command with another role.
func (c Command) As(role Role) Command {
	c.role = role
	return c
}

// Role returns the role of the command.
func (c Command) Role() Role { return cmp.Or(c.role, Fix) }

// place says where a person types a command, and how the command reaches the machine on which it
// runs.
type place int

const (
	here     place = iota // typed and run on the launching machine
	onNodes               // typed on the launching machine, run on nodes over ssh or pdsh
	eachHost              // typed and run on the launching machine, once for each host
	console               // typed and run on the node
	note                  // not a command, but a step to do by hand
	stated                // a command from the user's own file
)

// On returns a command that runs on the nodes of the finding: over ssh for one node, over pdsh for
// several.
func On(code literal, args ...Arg) Command { return Command{place: onNodes, code: filled{code, args}} }

// Here returns a command that runs on the launching machine.
func Here(code literal, args ...Arg) Command { return Command{place: here, code: filled{code, args}} }

// EachHost returns a command that runs on the launching machine once for each host of the finding.
// In the code, $host is the name of the host.
func EachHost(code literal, args ...Arg) Command {
	return Command{place: eachHost, code: filled{code, args}}
}

// Console returns a command that a person types on the node itself.
func Console(code literal, args ...Arg) Command {
	return Command{place: console, code: filled{code, args}}
}

// Note returns a step that no command performs and that a person must do by hand.
func Note(words literal, args ...Arg) Command {
	return Command{place: note, remarks: []filled{{words, args}}}
}

// Stated returns a command from a file of the user. Only placeholders are replaced, such as
// {nodes}. {ssh} stands for the words that run a command on the nodes.
func Stated(code string) Command {
	return Command{place: stated, code: filled{literal: literal(strings.ReplaceAll(code, "%", "%%"))}}
}

// UnmarshalYAML reads a command of an embedded table. A row holds the command's place with the code
// or the words, and the command's role.
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

// Said returns a step in the words of a table, which may come from a file of the user. The result
// is always one line.
func Said(words string) Command {
	printed := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, words)
	return Command{place: note, remarks: []filled{{literal: literal(strings.ReplaceAll(printed, "%", "%%"))}}}
}

// At returns the command for the named nodes instead of the nodes of the finding. Without names, At
// returns the command unchanged.
func (c Command) At(names ...string) Command {
	c.at = names
	return c
}

// side says whether a command runs in the container of the ranks, on a node where the ranks run in
// one.
type side int

const (
	bySudo  side = iota // on the machine if the command uses sudo, because it then mostly concerns the machine, unless it is about ownFiles; otherwise in the container
	inside              // in the container
	outside             // on the machine
)

// Outside returns the command for the node itself, even if the ranks run in a container.
func (c Command) Outside() Command {
	c.side = outside
	return c
}

// Inside returns the command for the container of the ranks, if there is one. That is so even if
// the command uses sudo, because the command changes files of the container.
func (c Command) Inside() Command {
	c.side = inside
	return c
}

func (c Command) isOutside() bool {
	return c.side == outside || c.side == bySudo && c.UsesSudo() && !ownFiles.MatchString(string(c.code.literal))
}

// ownFiles matches the files by which programs in a container find names and settings. A container
// has its own, so the machine's files do not count.
var ownFiles = lazyregexp.New(`/etc/(hosts|nsswitch\.conf|resolv\.conf|gai\.conf|nccl\.conf|environment)([^.\w]|$)`)

// Locally returns a command for nodes as a command for the launching machine.
func (c Command) Locally() Command {
	if c.place == onNodes {
		c.place = here
	}
	return c.Bind(map[string]Arg{"nodes": raw("this machine")})
}

// Remark adds words to the remark of the command. Words that begin with a comma, colon or semicolon
// continue the previous remark.
func (c Command) Remark(words literal, args ...Arg) Command {
	c.remarks = append(slices.Clip(c.remarks), filled{words, args})
	return c
}

// Bind sets the arguments for names in braces.
func (c Command) Bind(args map[string]Arg) Command {
	args = maps.Clone(args)
	maps.Copy(args, c.bound)
	c.bound = args
	return c
}

// Lacks reports whether a name in braces has no argument yet.
func (c Command) Lacks() bool {
	code, remark := c.write(func(name string) (Arg, bool) { return raw(""), addressed[name] }, "", false)
	return code.lacks || remark.lacks
}

// addressed lists the names in braces whose values depend on the nodes of a finding.
var addressed = map[string]bool{
	"nodes": true, "node": true, "host": true, "hosts": true, "hostfile": true, "ssh": true, "ssh_port": true, "rsh": true,
	"pods": true, "cluster": true, "srun_options": true, "slurm_job": true,
}

// UsesSudo reports whether the command uses sudo.
func (c Command) UsesSudo() bool {
	code, _ := c.write(nothing, "", false)
	return code.usedSudo
}

// String returns a key: different commands have different keys. The command need not be addressed
// yet.
func (c Command) String() string {
	code, remark := c.write(nothing, "", false)
	return strings.Join([]string{string(c.Role()), string('0' + rune(c.place)), strings.Join(c.at, ","), code.String(), remark.String()}, "\x00")
}

func nothing(string) (Arg, bool) { return nil, false }

// Is reports whether two commands are the same. The commands need not be addressed yet.
func (c Command) Is(other Command) bool { return c.String() == other.String() }

// Compare orders commands. The order is arbitrary but fixed.
func Compare(a, b Command) int { return strings.Compare(a.String(), b.String()) }

// write returns the code and the remarks of a command. names resolves the placeholders that are not
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

// Steps returns the commands as the steps of one repair. The first Fix keeps its role, and each
// later one becomes Then.
func Steps(commands ...Command) []Command { return laterAs(Then, commands) }

// Alternatives returns the commands as a choice. The first Fix keeps its role, and each later one
// becomes Or.
func Alternatives(commands ...Command) []Command { return laterAs(Or, commands) }

func laterAs(role Role, commands []Command) []Command {
	fixes := 0
	for i, command := range commands {
		if command.Role() != Fix || command.place == note {
			continue
		}
		if fixes > 0 {
			commands[i] = command.As(role)
		}
		fixes++
	}
	return commands
}
