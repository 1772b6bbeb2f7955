package checks

import (
	"regexp"
	"strconv"
	"strings"

	"preflight/facts"
)

// cure is what to say of one way in which reaching a node can fail. Its texts
// may name what was met: {port}, {user}, {message} and the details the cause
// carries (remote.Cause names them), and in fix and wouldSee also the
// placeholders of Finding. A fix that names something unknown is left out.
type cure struct {
	check    string  // the check that fails; "" is the one of the stage it happened at
	verdict  Verdict // "" is the check's own
	summary  string
	got      string // "" where more words would keep equal failures of many nodes apart
	fix      []string
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
func (c cure) finding(node *facts.Node) Finding {
	values := metOnTheWay(node.SSH)
	f := Finding{Verdict: c.verdict, Nodes: []string{node.Name}}
	f.Summary, _ = fillIn(c.summary, values, verbatim)
	if got, complete := fillIn(c.got, values, verbatim); complete {
		f.Got = got
	}
	if notes := openSSH(node.SSH); notes != "" {
		f.Got = strings.TrimPrefix(f.Got+"; "+notes, "; ")
	}
	fixes := c.fix
	if c.installs {
		fixes = append(installKey(node.SSH), c.fix...)
	}
	for _, template := range fixes {
		if fix, complete := fillIn(template, values, ShellWord); complete {
			f.Fix = append(f.Fix, fix)
		}
	}
	if len(f.Fix) == 0 && f.Verdict != Unknown {
		f.Fix = []string{tryBySSH}
	}
	if wouldSee, complete := fillIn(c.wouldSee, values, verbatim); complete {
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

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// unknownDetail stands in a summary for what was not told.
const unknownDetail = "(unknown)"

// fillIn writes values into a template and reports whether all were known. The
// placeholders of Finding are left for when equal findings have been folded.
func fillIn(template string, values map[string]string, quote func(string) string) (string, bool) {
	complete := true
	text := placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch name {
		case "{ssh}", "{node}", "{nodes}", "{host}", "{hosts}", "{hostfile}":
			return name
		}
		value := values[strings.Trim(name, "{}")]
		if value == "" {
			complete = false
			return unknownDetail
		}
		return quote(value)
	})
	return text, complete
}

func verbatim(text string) string { return text }
