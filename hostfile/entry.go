// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"fmt"
	"slices"
	"strings"
)

// entry splits a stripped line into the name, the number of slots as ASCII digits, and the rest,
// which DeepSpeed ignores. original is DeepSpeed's error for a bad line, "" for a good line.
func (p *parser) entry(line string) (name, digits, rest, original string) {
	if p.older {
		name, digits, original = olderEntry(line)
		return name, digits, "", original
	}
	name, digits, rest, ok := entry(line)
	switch {
	case ok:
		return name, digits, rest, ""
	case p.unnamed:
		line = "{line}" // DeepSpeed's own mistake: the message lacked the f of an f-string
	}
	return "", "", "", fmt.Sprintf("Hostfile contains a bad entry: %s, unable to proceed with launching", line)
}

// entry splits a stripped line as the pattern ^(\S+)\s+slots=(\d+) does.
func entry(line string) (name, digits, rest string, ok bool) {
	blank := strings.IndexFunc(line, pySpace)
	if blank < 0 {
		return "", "", "", false
	}
	name = line[:blank]
	value, found := strings.CutPrefix(strings.TrimLeftFunc(line[blank:], pySpace), "slots=")
	if !found {
		return "", "", "", false
	}
	digits, rest = pyDigits(value)
	return name, digits, rest, digits != ""
}

func hint(line string) string {
	words := strings.FieldsFunc(line, pySpace)
	name := words[0]
	switch {
	case strings.HasPrefix(line, ByteOrderMark):
		return "begins with a byte order mark, so DeepSpeed reads it neither as a comment nor as an entry: save the file as UTF-8 without one"
	case len(words) == 1:
		return fmt.Sprintf(`%q has no slots: write "NAME slots=N", where N is the number of accelerators`, name)
	case hasSlots(words[2:]):
		return fmt.Sprintf("slots=N must come right after the name: move it there, before %q", words[1])
	case strings.HasPrefix(strings.ToLower(words[1]), "slots"):
		return fmt.Sprintf(`%q is not slots=N: write it in lower case, with N in digits and no blanks around "="`, strings.Join(words[1:], " "))
	}
	return fmt.Sprintf(`%q is not slots=N: write "NAME slots=N", where N is the number of accelerators`, words[1])
}

func hasSlots(words []string) bool {
	at := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "slots=") })
	if at < 0 {
		return false
	}
	digits, _ := pyDigits(strings.TrimPrefix(words[at], "slots="))
	return digits != ""
}

func encodingHint(raw string) string {
	if utf16Marked(raw) {
		return "the file is UTF-16; save it as UTF-8 without byte order mark"
	}
	return "save the file as UTF-8, or remove the accented letters"
}

func utf16Marked(text string) bool {
	return strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff")
}

// olderEntry splits a stripped line as DeepSpeed before v0.8.0 did. The line must have two words,
// and the second must be KEY=NUMBER with any key. original is Python's error for any other line.
//
// Source: deepspeed/launcher/runner.py, fetch_hostfile, v0.6.0 to v0.7.7.
func olderEntry(line string) (name, digits, original string) {
	words := strings.FieldsFunc(line, pySpace)
	if len(words) != 2 {
		return "", "", pyUnpack(len(words))
	}
	pair := strings.Split(words[1], "=")
	if len(pair) != 2 {
		return "", "", pyUnpack(len(pair))
	}
	digits, ok := PythonInt(pair[1])
	if !ok {
		return "", "", pyNoNumber(pair[1])
	}
	return words[0], digits, ""
}

func olderHint(line string) string {
	if _, _, _, ok := entry(line); ok {
		return fmt.Sprintf(`DeepSpeed before 0.8.0 allows nothing after "slots=N", not even a comment: remove it from %q`, line)
	}
	if strings.HasPrefix(line, "#") {
		return "DeepSpeed before 0.8.0 does not support comments: remove the line"
	}
	return hint(line)
}

func (p *parser) note(line int, name string, slots int, rest string) {
	add := func(trap, message string) {
		p.notes = append(p.notes, Note{ID: trap, Line: line, Message: message})
	}
	if trap, message := nameNote(name); trap != "" {
		add(trap, message)
	}
	if slots <= 0 {
		add("zero-slots", fmt.Sprintf("%s has slots=%d: DeepSpeed counts it as a node, but starts no process there; remove the line, or give it slots", name, slots))
	}
	if rest = pyStrip(rest); rest != "" && rest[0] != '#' {
		add("ignored-text", fmt.Sprintf("DeepSpeed reads slots=%d for %s and silently ignores %q after it", slots, name, rest))
	}
}

// HandsOption reports whether pdsh passes a part of a name to ssh as an option. Such an option can
// run a command on the launching machine. Tested with pdsh 2.34.
func HandsOption(name string) bool { return strings.Contains(name, "@-") }

// nameNote checks for names that the launcher or ssh reads as something else. It returns the first
// problem of a name. The effect of such names on pdsh was tested with `pdsh -R ssh -Q -w NAME` of
// pdsh 2.34.
func nameNote(name string) (trap, message string) {
	switch {
	case strings.HasPrefix(name, ByteOrderMark):
		return "byte-order-mark", fmt.Sprintf("the file begins with a byte order mark, which DeepSpeed reads as a part of the name %q, and no such name resolves: save the file as UTF-8 without one", name)
	case strings.ContainsAny(name[:1], "-^/"):
		return "pdsh-operator", fmt.Sprintf("pdsh reads the first character of %q as an operator: - leaves hosts out, ^ reads them from a file, / filters; rename the host in ~/.ssh/config", name)
	case HandsOption(name):
		return "pdsh-option", fmt.Sprintf("pdsh passes the part of %q after the account to ssh, which reads it as an option: -oProxyCommand=… runs a command on the launching machine; remove the line, and ask who wrote it", name)
	case strings.Contains(name, "#"):
		return "comment-in-name", fmt.Sprintf(`"#" starts a comment only in the first column, and before DeepSpeed 0.8.0 nowhere, so the name of the host is %q: remove the comment`, name)
	case strings.Contains(name, "["):
		return "pdsh-range", fmt.Sprintf("pdsh expands or refuses the brackets of %q, and node ranks no longer match the hostfile: write one line per host, and give an IPv6 address a name in ~/.ssh/config", name)
	case strings.Contains(name, ","):
		return "pdsh-list", fmt.Sprintf("pdsh reads %q as several hosts, and node ranks no longer match the hostfile: write one line per host", name)
	case strings.HasSuffix(name, ":"):
		return "pdsh-rcmd", fmt.Sprintf(`the colon is a part of the name %q, which pdsh reads as a remote-command module, and no such name resolves: remove the colon`, name)
	case rcmdPrefix(name):
		return "pdsh-rcmd", fmt.Sprintf(`pdsh reads the part of %q before ":" as a remote-command module and fails with "No such rcmd module": set a port with --ssh_port or in ~/.ssh/config, and give an IPv6 address a name there`, name)
	case strings.ContainsAny(name, `'"\`):
		return "quoted-name", fmt.Sprintf("DeepSpeed splits the command of its ssh check as a shell would, so %q loses its quotes and backslashes there: rename the host in ~/.ssh/config", name)
	}
	return "", ""
}

// rcmdPrefix reports whether pdsh reads the start of a name as a module. The first colon ends the
// module's name, unless a second colon follows it, as in fe80::1.
func rcmdPrefix(name string) bool {
	_, after, found := strings.Cut(name, ":")
	return found && !strings.HasPrefix(after, ":")
}
