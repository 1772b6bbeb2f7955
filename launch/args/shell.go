// SPDX-License-Identifier: Apache-2.0

package args

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"preflight/launch"
)

// shells lists programs that run a script. quiet lists commands in a script that do not change what
// the following commands do.
var (
	shells = []string{"bash", "sh", "dash"}
	quiet  = []string{"set", "echo", "printf", "mkdir", "date", "sleep", "true", ":"}
)

// Script is the result of reading a shell script.
type Script struct {
	// Typed is the equivalent command line: NAME=value for exported variables, then the launch
	// command. It is nil if the words run no script.
	Typed []string
	Dir   string // the script's current directory when it runs the launch command
}

// shellScript is the state of reading a script.
type shellScript struct {
	Surroundings
	name      string
	line      uint
	dir       string
	arguments []string
	set       []variable // the script's own variables, in the order in which they were first set
	empty     []string   // empty variables in the current command, for example "$NNODES of run.sh:2"
}

type variable struct {
	expand.Variable
	name string
}

// OfScript returns the launch command of the shell script that the words run. The script must be
// plain: assignments, cd and then a launch command. An error is a [*launch.UsageError] that names
// the line that is not plain.
func OfScript(words []string, around Surroundings) (Script, error) {
	name, arguments := scriptOf(words)
	if name == "" {
		return Script{}, nil
	}
	if err := quotedWhole(name); err != nil {
		return Script{}, err
	}
	text, err := around.ReadFile(name)
	if err != nil {
		return Script{}, &launch.UsageError{Program: path.Base(words[0]), Message: fmt.Sprintf("%s cannot be read: %v", name, err)}
	}
	s := &shellScript{Surroundings: around, name: name, arguments: arguments, dir: around.WorkDir}
	for stmt, err := range syntax.NewParser().StmtsSeq(strings.NewReader(string(text))) {
		if parse := (syntax.ParseError{}); errors.As(err, &parse) {
			s.line = parse.Pos.Line()
			return Script{}, s.notPlain(parse.Text)
		}
		command, err := s.run(stmt)
		if command != nil && err == nil {
			err = s.emptied(command)
		}
		if err != nil {
			return Script{}, err
		}
		if command != nil {
			return Script{Typed: append(s.exports(), command...), Dir: s.dir}, nil
		}
	}
	s.line = 0
	return Script{}, s.notPlain("it starts no launch that preflight knows")
}

// scriptOf returns the script that the words run in a shell, "" for none, and its arguments.
func scriptOf(words []string) (name string, arguments []string) {
	switch {
	case len(words) == 0:
		return "", nil
	case slices.Contains(shells, path.Base(words[0])):
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "c") {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "-") {
			return "", nil
		}
	case path.Ext(words[0]) != ".sh":
		return "", nil
	}
	return words[0], words[1:]
}

// notPlain returns an error that says why preflight cannot tell what a script starts, and what to
// do instead.
func (s *shellScript) notPlain(why string) error {
	at := s.name
	if s.line > 0 {
		at = fmt.Sprintf("%s:%d", s.name, s.line)
	}
	return &launch.UsageError{Program: at, Message: why + `: write "preflight --" before the launch command in the script`}
}

// emptied returns an error that names the empty variables of a launch command. It returns nil if
// the command parses anyway.
func (s *shellScript) emptied(command []string) error {
	if s.empty == nil {
		return nil
	}
	around := s.Surroundings
	around.Getenv = func(name string) string { return s.Get(name).String() }
	around.ReadFile = func(name string) ([]byte, error) { return s.ReadFile(s.in(name)) }
	_, err := Parse(command, anyRelease, around)
	usage, isUsage := errors.AsType[*launch.UsageError](err)
	if !isUsage {
		return nil
	}
	be := "is"
	if len(s.empty) > 1 {
		be = "are"
	}
	refused := *usage
	refused.Message += fmt.Sprintf("; %s %s empty", strings.Join(s.empty, ", "), be)
	return &refused
}

// run reads one statement. It returns the launch command if the statement contains it.
func (s *shellScript) run(stmt *syntax.Stmt) ([]string, error) {
	s.line = stmt.Pos().Line()
	if stmt.Background || stmt.Negated || stmt.Coprocess || stmt.Disown {
		return nil, s.notPlain("it has a command after \"!\" or before \"&\"")
	}
	for _, redirect := range stmt.Redirs { // redirecting output to a log does not affect the launch
		if !slices.Contains([]syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.DplOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll}, redirect.Op) {
			return nil, s.notPlain(fmt.Sprintf("%q does more than run one command, and preflight does not run a shell", redirect.Op))
		}
	}
	switch command := stmt.Cmd.(type) {
	case nil:
		return nil, nil
	case *syntax.CallExpr:
		return s.call(command)
	case *syntax.DeclClause:
		if command.Variant.Value == "export" {
			return nil, s.assign(command.Args, true)
		}
	case *syntax.BinaryCmd: // the first command is assumed to succeed, and a pipe to end in a log
		first, err := s.run(command.X)
		if first == nil && err == nil && command.Op == syntax.AndStmt {
			return s.run(command.Y)
		}
		return first, err
	}
	return nil, s.notPlain("this does more than run one command, and preflight does not run a shell")
}

// call reads a command and the variable assignments before it.
func (s *shellScript) call(call *syntax.CallExpr) ([]string, error) {
	s.empty = nil
	words, err := s.fields(call.Args...)
	if err != nil {
		return nil, err
	}
	if len(words) > 0 && words[0] == "exec" {
		words = words[1:]
	}
	switch {
	case len(words) == 0:
		return nil, s.assign(call.Assigns, false)
	case words[0] == "cd" && len(words) == 2 && !strings.HasPrefix(words[1], "-"):
		s.dir = s.in(words[1])
	case slices.Contains(quiet, words[0]) && !slices.Contains(words, "--"): // "set --" would change $1
	case Begins(words[0]) || pythonName.MatchString(path.Base(words[0])):
		return words, s.assign(call.Assigns, true)
	default:
		return nil, s.notPlain(fmt.Sprintf("preflight does not know what %s does before the launch", words[0]))
	}
	return nil, nil
}

// in resolves a path in the script's current directory.
func (s *shellScript) in(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(s.dir, name)
}

// assign sets variables to a text or to a list of words.
func (s *shellScript) assign(all []*syntax.Assign, exports bool) (err error) {
	for _, one := range all {
		if one.Name == nil || one.Index != nil {
			return s.notPlain("it sets something other than plain variables and lists")
		}
		v := s.Get(one.Name.Value)
		if !one.Append && !one.Naked {
			v = expand.Variable{Exported: v.Exported}
		}
		v.Set, v.Exported = true, v.Exported || exports
		switch {
		case one.Array != nil:
			v.Kind = expand.Indexed
			for _, element := range one.Array.Elems {
				if element.Index != nil {
					return s.notPlain("it sets single elements of a list")
				}
				words, err := s.fields(element.Value)
				if err != nil {
					return err
				}
				v.List = append(v.List, words...)
			}
		case v.Kind == expand.Indexed && !one.Naked:
			return s.notPlain("it appends a string to a list")
		case one.Value != nil:
			text, err := s.text(one.Value)
			if err != nil {
				return err
			}
			v.Kind, v.Str = expand.String, v.Str+text
		case v.Kind == expand.Unknown:
			v.Kind = expand.String
		}
		s.put(one.Name.Value, v)
	}
	return nil
}

func (s *shellScript) put(name string, v expand.Variable) {
	if at := slices.IndexFunc(s.set, func(known variable) bool { return known.name == name }); at >= 0 {
		s.set[at].Variable = v
		return
	}
	s.set = append(s.set, variable{v, name})
}

// exports returns the variables that the script exports to the launch.
func (s *shellScript) exports() (all []string) {
	for _, one := range s.set {
		if one.Exported && one.Kind == expand.String {
			all = append(all, one.name+"="+one.Str)
		}
	}
	return all
}

// Get returns a variable as the shell sees it.
func (s *shellScript) Get(name string) expand.Variable {
	text := func(value string, exported bool) expand.Variable {
		return expand.Variable{Set: value != "", Exported: exported, Kind: expand.String, Str: value}
	}
	if number, err := strconv.Atoi(name); err == nil && number <= len(s.arguments) {
		return text(append([]string{s.name}, s.arguments...)[number], false)
	}
	for _, one := range s.set {
		if one.name == name {
			return one.Variable
		}
	}
	switch name {
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: s.arguments}
	case "#":
		return text(strconv.Itoa(len(s.arguments)), false)
	case "BASH_SOURCE":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{s.name}}
	case "PWD":
		return text(s.dir, true)
	case "HOSTNAME":
		return text(s.Hostname, false)
	}
	value := s.Getenv(name)
	return text(value, value != "")
}

// Each does nothing: the shell calls it only for ${!prefix*}, which is not plain.
func (s *shellScript) Each(func(string, expand.Variable) bool) {}

// fields returns the words into which the shell expands and splits the given words.
func (s *shellScript) fields(words ...*syntax.Word) ([]string, error) {
	for _, word := range words {
		if err := s.checkPlain(word); err != nil {
			return nil, err
		}
	}
	fields, err := expand.Fields(s.expanding(), words...)
	return fields, s.blamed(err)
}

// text returns a word as the shell expands it, without splitting it.
func (s *shellScript) text(word *syntax.Word) (string, error) {
	if err := s.checkPlain(word); err != nil {
		return "", err
	}
	text, err := expand.Literal(s.expanding(), word)
	return text, s.blamed(err)
}

func (s *shellScript) expanding() *expand.Config {
	return &expand.Config{Env: s, CmdSubst: s.substitute}
}

// blamed returns an expansion error as a usage error with the line of the script.
func (s *shellScript) blamed(err error) error {
	if usage := (*launch.UsageError)(nil); err == nil || errors.As(err, &usage) {
		return err
	}
	return s.notPlain(err.Error())
}

// moving lists variables whose value changes with the time or the machine.
var moving = strings.Fields("RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO BASHPID PPID UID EUID FUNCNAME DIRSTACK $ ? ! - _")

// pattern matches words that a shell would replace by the names of files.
var pattern = regexp.MustCompile(`(^|[^\\])(\\\\)*[*?[]`)

// checkPlain refuses a word whose value depends on a running shell or on existing files.
func (s *shellScript) checkPlain(word *syntax.Word) (err error) {
	for _, part := range word.Parts {
		if text, isText := part.(*syntax.Lit); isText && pattern.MatchString(text.Value) {
			return s.notPlain(fmt.Sprintf("only the shell knows which files %s matches", text.Value))
		}
	}
	syntax.Walk(word, func(node syntax.Node) bool {
		known := true
		switch part := node.(type) {
		case *syntax.ProcSubst, *syntax.ExtGlob:
			known = false
		case *syntax.ParamExp:
			known = !part.Excl && (part.Param == nil || !slices.Contains(moving, part.Param.Value))
			s.noteEmpty(part)
		}
		if !known {
			err = cmp.Or(err, s.notPlain("only the shell knows the computed value"))
		}
		return known
	})
	return err
}

// noteEmpty records a variable that is empty and has no default value.
func (s *shellScript) noteEmpty(of *syntax.ParamExp) {
	if of.Param == nil || of.Exp != nil || of.Length {
		return
	}
	if v := s.Get(of.Param.Value); v.Kind == expand.String && v.Str == "" {
		s.empty = append(s.empty, fmt.Sprintf("$%s of %s:%d", of.Param.Value, s.name, of.Pos().Line()))
	}
}

// printedHere returns the host that a statement prints, if every node treats that host as itself:
// localhost for "echo localhost". Otherwise it returns "".
func (s *shellScript) printedHere(stmt *syntax.Stmt) string {
	call, isCall := stmt.Cmd.(*syntax.CallExpr)
	if !isCall {
		return ""
	}
	words, err := s.fields(call.Args...)
	if err != nil || len(words) < 2 || words[0] != "echo" && words[0] != "printf" {
		return ""
	}
	host := strings.TrimSuffix(words[len(words)-1], `\n`)
	if address, err := netip.ParseAddr(host); host == "localhost" || err == nil && address.IsLoopback() {
		return host
	}
	return ""
}

// substitute writes the output of a command substitution. It supports only dirname, basename, pwd
// and hostname, also after a cd.
func (s *shellScript) substitute(w io.Writer, of *syntax.CmdSubst) error {
	inner := *s
	var printed string
	var run func(stmt *syntax.Stmt) error
	run = func(stmt *syntax.Stmt) error {
		if and, isBoth := stmt.Cmd.(*syntax.BinaryCmd); isBoth && and.Op == syntax.AndStmt {
			return cmp.Or(run(and.X), run(and.Y))
		}
		if or, isEither := stmt.Cmd.(*syntax.BinaryCmd); isEither && or.Op == syntax.OrStmt {
			err := run(or.X) // nil for a command that does not fail
			if host := inner.printedHere(or.Y); err != nil && host != "" {
				return s.notPlain(fmt.Sprintf("if the command before || fails, the value is %s, and every node meets only itself", host))
			}
			return err
		}
		call, isCall := stmt.Cmd.(*syntax.CallExpr)
		if !isCall || len(call.Assigns) > 0 || stmt.Background || stmt.Negated {
			return s.notPlain("only the shell knows the computed value")
		}
		words, err := inner.fields(call.Args...)
		if err != nil {
			return err
		}
		switch words = slices.DeleteFunc(words, func(word string) bool { return word == "--" }); {
		case slices.Equal(words, []string{"pwd"}):
			printed = inner.dir
		case slices.Equal(words, []string{"hostname"}) && s.Hostname != "":
			printed = s.Hostname
		case len(words) == 2 && words[0] == "dirname":
			printed = path.Dir(words[1])
		case len(words) == 2 && words[0] == "basename":
			printed = path.Base(words[1])
		case len(words) == 2 && words[0] == "cd" && !strings.HasPrefix(words[1], "-"):
			inner.dir = inner.in(words[1])
		default:
			return s.notPlain("only the shell knows the computed value")
		}
		return nil
	}
	for _, stmt := range of.Stmts {
		if err := run(stmt); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, printed)
	return err
}
