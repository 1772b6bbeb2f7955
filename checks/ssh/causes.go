package ssh

import (
	"regexp"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
)

// cure is what to say of one way in which reaching a node can fail. Its texts
// may name what was met: {port}, {user}, {message} and the details the cause
// carries (remote.Cause names them), and in fix and wouldSee also the
// placeholders of Finding. A fix that names something unknown is left out.
type cure struct {
	check    string         // the check that fails; "" is the one of the stage it happened at
	verdict  checks.Verdict // "" is the check's own
	summary  string
	got      string // "" where more words would keep equal failures of many nodes apart
	fix      []fix.Command
	installs bool   // how to bring our key there goes before these fixes
	wouldSee string // "" is the check's own
}

// cureOf is that of the cause, which package remote names; of any other word it is that
// of "unexpected".
func cureOf(ssh *facts.SSH) cure {
	if c, known := cures[ssh.Cause]; known {
		return c
	}
	return cures["unexpected"]
}

// finding is the cure written out for one node.
func (c cure) finding(node *facts.Node) checks.Finding {
	values := metOnTheWay(node.SSH)
	f := checks.Finding{Verdict: c.verdict, Nodes: []string{node.Name}}
	f.Summary, _ = fillIn(c.summary, values)
	if got, complete := fillIn(c.got, values); complete {
		f.Got = got
	}
	if notes := openSSH(node.SSH); notes != "" {
		f.Got = strings.TrimPrefix(f.Got+"; "+notes, "; ")
	}
	commands := c.fix
	if c.installs {
		commands = append(installKey(node.SSH), c.fix...)
	}
	args := typed(values)
	for _, command := range commands {
		if bound := command.Bind(args); !bound.Lacks() {
			f.Remedy = append(f.Remedy, bound)
		}
	}
	if len(f.Remedy) == 0 && f.Verdict != checks.Unknown {
		f.Remedy = []fix.Command{remedy.TryBySSH}
	}
	if wouldSee, complete := fillIn(c.wouldSee, values); complete {
		f.WouldSee = wouldSee
	}
	return f
}

// metOnTheWay is what a cure's texts may name.
func metOnTheWay(ssh *facts.SSH) map[string]string {
	values := map[string]string{"message": ssh.Message, "user": ssh.User, "port": "22"}
	if ssh.Port != 0 {
		values["port"] = strconv.Itoa(ssh.Port)
	}
	for name, value := range ssh.Detail {
		values[name] = value
	}
	return values
}

// typed says what the values that commands name are.
func typed(values map[string]string) map[string]fix.Arg {
	args := map[string]fix.Arg{}
	for name, value := range values {
		switch {
		case value == "":
		case name == "file":
			args[name] = fix.Path(value)
		case name == "name":
			args[name] = fix.Word(value)
		case name == "user":
			args[name] = fix.Operand(value)
		case name == "jump":
			args[name] = fix.Host(value)
		default:
			args[name] = fix.Name(value)
		}
	}
	return args
}

// openSSH is what the system's ssh would have done otherwise. A sentence may
// begin with the host it is about, which would keep equal findings apart.
func openSSH(ssh *facts.SSH) string {
	var notes []string
	for _, note := range append(ssh.OpenSSH[:len(ssh.OpenSSH):len(ssh.OpenSSH)], ssh.Detail["openssh"]) {
		if host, rest, found := strings.Cut(note, ": "); found && !strings.Contains(host, " ") {
			note = rest
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

var Placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// UnknownDetail stands in a summary for what was not told.
const UnknownDetail = "(unknown)"

// fillIn writes values into a template and reports whether all were known. The
// placeholders of Finding are left for when equal findings have been folded.
func fillIn(template string, values map[string]string) (string, bool) {
	complete := true
	text := Placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch name {
		case "{node}", "{nodes}", "{host}":
			return name
		}
		value := values[strings.Trim(name, "{}")]
		if value == "" {
			complete = false
			return UnknownDetail
		}
		return value
	})
	return text, complete
}
