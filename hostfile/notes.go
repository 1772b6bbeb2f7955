package hostfile

import (
	"fmt"
	"strings"
)

func (p *parser) note(line int, name string, slots int, rest string) {
	add := func(trap, message string) {
		p.notes = append(p.notes, Note{ID: trap, Line: line, Message: message})
	}
	if trap, message := nameNote(name); trap != "" {
		add(trap, message)
	}
	if slots <= 0 {
		add("zero-slots", fmt.Sprintf("%s has slots=%d: it is counted as a node and gets a command, but runs no process; remove the line, or give it slots", name, slots))
	}
	if rest = pyStrip(rest); rest != "" && rest[0] != '#' {
		add("ignored-text", fmt.Sprintf("DeepSpeed takes slots=%d for %s and silently ignores %q after it", slots, name, rest))
	}
}

// nameNote finds the names that the launcher or ssh will read as something
// else, each by its first trouble. What pdsh makes of them was tried with
// `pdsh -R ssh -Q -w NAME` of pdsh 2.34.
func nameNote(name string) (trap, message string) {
	switch {
	case strings.HasPrefix(name, byteOrderMark):
		return "byte-order-mark", fmt.Sprintf("the file begins with a byte order mark, which DeepSpeed takes for a part of the name %q, and no such name resolves: save the file as UTF-8 without one", name)
	case strings.ContainsAny(name[:1], "-^/"):
		return "pdsh-operator", fmt.Sprintf("pdsh reads the first character of %q as an operator: - leaves hosts out, ^ reads them from a file, / filters; rename the host in ~/.ssh/config", name)
	case strings.Contains(name, "#"):
		return "comment-in-name", fmt.Sprintf(`"#" starts a comment only in the first column, and before DeepSpeed 0.8.0 nowhere, so the host is really named %q: take the comment out`, name)
	case strings.Contains(name, "["):
		return "pdsh-range", fmt.Sprintf("pdsh expands or refuses the brackets of %q, and node ranks no longer match the hostfile: write one line a host, and an IPv6 address as a name from ~/.ssh/config", name)
	case strings.Contains(name, ","):
		return "pdsh-list", fmt.Sprintf("pdsh takes %q for several hosts, and node ranks no longer match the hostfile: write one line a host", name)
	case rcmdPrefix(name):
		return "pdsh-rcmd", fmt.Sprintf(`pdsh takes what stands before ":" in %q for a remote-command module and dies with "No such rcmd module": give a port by --ssh_port or ~/.ssh/config, and an IPv6 address a name there`, name)
	case strings.ContainsAny(name, `'"\`):
		return "quoted-name", fmt.Sprintf("DeepSpeed splits the command of its ssh check as a shell would, so %q loses its quotes and backslashes there: rename the host in ~/.ssh/config", name)
	}
	return "", ""
}

// rcmdPrefix is pdsh's rule: the first colon ends a module's name unless a
// second one follows it, as in fe80::1.
func rcmdPrefix(name string) bool {
	_, after, found := strings.Cut(name, ":")
	return found && !strings.HasPrefix(after, ":")
}
