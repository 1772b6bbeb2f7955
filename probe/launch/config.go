// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"unicode/utf8"

	"preflight/internal/lazyregexp"
	"preflight/internal/secret"
)

// configSize is up to which size the text of a configuration is brought.
const configSize = 256 << 10

// configText is a DeepSpeed configuration as it stands, without what may be a
// secret; "" for one that is too large to be one, or no text.
func configText(path string) string {
	text, err := readOrdinary(path, configSize+1)
	if err != nil || len(text) > configSize || !utf8.Valid(text) {
		return ""
	}
	return maskConfig(string(text))
}

// maskConfig replaces by "…" what follows a key that promises a secret, what
// stands in comments, and secrets inside of strings. All else stays where it is,
// mistakes included, since those are what the text is read for.
//
// DeepSpeed reads its configuration as Hjson (deepspeed/runtime/config.py): JSON
// with comments, and with keys and strings that need no quotes.
func maskConfig(text string) string {
	m := &configMasker{rest: text}
	for m.rest != "" {
		m.next()
	}
	return m.out.String()
}

// configMasker copies a text token by token.
type configMasker struct {
	rest string
	out  strings.Builder
	// secret is whether the key before the next value promises a secret, whole
	// whether all that is inside the value is one.
	secret, whole bool
	afterColon    bool
	outer         []bool // whether all that is inside the open brackets is a secret
}

// The tokens of Hjson. A string without its end ends with its line, as in a file
// that DeepSpeed will refuse.
var (
	blankToken   = lazyregexp.New(`^[\s,]+`)
	commentToken = lazyregexp.New(`^(?:#|//)[^\n]*|^/\*(?s:.*?)(?:\*/|$)`)
	quotedToken  = lazyregexp.New(`^'''(?s:.*?)(?:'''|$)|^"(?:[^"\\\n]|\\.)*"?|^'(?:[^'\\\n]|\\.)*'?`)
	bareKeyToken = lazyregexp.New(`^[^\s,:\[\]{}"']+(\s*):`)
	numberToken  = lazyregexp.New(`^(?:-?[0-9][0-9.eE+-]*|true|false|null)([ \t\r]*(?:[,\]}#\n]|//|/\*|$))`)
	lineToken    = lazyregexp.New(`^[^\n]+`)
	beforeColon  = lazyregexp.New(`^\s*:`)
)

func (m *configMasker) next() {
	switch first := m.rest[0]; {
	case m.copy(blankToken) != "":
	case first == '{' || first == '[':
		m.open()
	case first == '}' || first == ']':
		if len(m.outer) > 0 {
			m.outer = m.outer[:len(m.outer)-1]
		}
		m.punctuation()
	case first == ':':
		m.out.WriteByte(':')
		m.rest, m.afterColon = m.rest[1:], true
	case commentToken.MatchString(m.rest):
		m.comment(m.take(commentToken))
	case quotedToken.MatchString(m.rest):
		m.quoted(m.take(quotedToken))
	default:
		m.bare()
	}
}

// take cuts a token off the front, "" when there is none of this kind.
func (m *configMasker) take(token *lazyregexp.Regexp) string {
	taken := token.FindString(m.rest)
	m.rest = m.rest[len(taken):]
	return taken
}

func (m *configMasker) copy(token *lazyregexp.Regexp) string {
	taken := m.take(token)
	m.out.WriteString(taken)
	return taken
}

// punctuation copies a bracket, after which nothing is left of the key before it.
func (m *configMasker) punctuation() {
	m.out.WriteByte(m.rest[0])
	m.rest = m.rest[1:]
	m.forget()
}

func (m *configMasker) forget() { m.secret, m.whole, m.afterColon = false, false, false }

func (m *configMasker) inside() bool { return len(m.outer) > 0 && m.outer[len(m.outer)-1] }

// open goes into an object or a list. A list below a key that promises a secret is
// one of secrets; an object is only where the key says that it is nothing else.
func (m *configMasker) open() {
	m.outer = append(m.outer, m.inside() || m.whole || m.secret && m.rest[0] == '[')
	m.punctuation()
}

// comment keeps the lines of a comment, and none of its words.
func (m *configMasker) comment(text string) {
	start := "#"
	if text[0] == '/' {
		start = text[:2]
	}
	m.out.WriteString(start + "…" + strings.Repeat("\n", strings.Count(text, "\n")))
	if start == "/*" {
		m.out.WriteString("*/")
	}
}

// quoted takes in a key or a string.
func (m *configMasker) quoted(text string) {
	if beforeColon.MatchString(m.rest) {
		m.key(strings.Trim(text, `"'`))
		m.out.WriteString(secret.Hide(text))
		return
	}
	quote := text[:1]
	if strings.HasPrefix(text, "'''") {
		quote = "'''"
	}
	if m.secret || m.inside() || !strings.HasSuffix(text[1:], quote) && secret.Named(text) {
		text = quote + secret.Hidden + quote
	} else {
		text = secret.Hide(text)
	}
	m.out.WriteString(text)
	m.forget()
}

// bare takes in what stands without quotes: a key, a number, or a string, which
// then lasts until the end of its line and may have swallowed a key by mistake.
func (m *configMasker) bare() {
	if key := bareKeyToken.FindString(m.rest); key != "" && !m.afterColon {
		key = strings.TrimSuffix(key, ":")
		m.key(strings.TrimSpace(key))
		m.out.WriteString(key)
		m.rest = m.rest[len(key):]
		return
	}
	number := numberToken.FindStringSubmatchIndex(m.rest)
	var text string
	if number != nil {
		text = m.rest[:number[2]]
	} else if text = lineToken.FindString(m.rest); text == "" {
		text = m.rest[:1]
	}
	m.rest = m.rest[len(text):]
	literal := text == "true" || text == "false" || text == "null"
	if (m.secret || m.inside()) && !literal || number == nil && strings.Contains(text, ":") && secret.Named(text) {
		text = `"` + secret.Hidden + `"`
	} else {
		text = secret.Hide(text)
	}
	m.out.WriteString(text)
	m.forget()
}

// key takes note of what a key promises.
func (m *configMasker) key(name string) {
	m.secret, m.whole = secret.Named(name), secret.NamedThroughout(name)
}
