// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"strings"

	"preflight/internal/lazyregexp"
)

// hideNamed hides values of secrets. Such a value follows the name of a secret and "=" or ":" in an
// assignment, a query, JSON, YAML or a header. In a sentence hideNamed hides only values that look
// like secrets.
func hideNamed(text string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != '=' && c != ':' {
			continue
		}
		name, quoted := nameBefore(text[done:i])
		if name == "" || !Named(name) {
			continue
		}
		value := valueAfter(text, i, name, quoted)
		if value.from == value.to {
			continue
		}
		out.WriteString(text[done:value.from])
		out.WriteString(Hidden)
		done = value.to
		i = done - 1
	}
	if done == 0 {
		return text
	}
	return out.String() + text[done:]
}

// nameBefore returns the name at the end of a text, and whether the name is in quotes.
func nameBefore(text string) (name string, quoted bool) {
	text = strings.TrimRight(text, " \t:=")
	bare := strings.TrimRight(strings.TrimRight(text, `]`), `"'\`)
	quoted = len(bare) < len(text) && strings.ContainsAny(text[len(bare):], `"'`)
	const longest = 128
	from := len(bare)
	for from > 0 && len(bare)-from < longest && isNameByte(bare[from-1]) {
		from--
	}
	return bare[from:], quoted
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' || c == '%' }

func isNameRune(r rune) bool { return r < 0x80 && (isNameByte(byte(r)) || r == '+') }

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

type span struct{ from, to int }

// valueAfter returns the part to hide of the value that follows a name and the sign at text[at]. It
// returns an empty span if the value is no secret.
func valueAfter(text string, at int, name string, quoted bool) (none span) {
	from := at + 1
	for from < len(text) && strings.IndexByte(" \t=:>", text[from]) >= 0 && !strings.HasPrefix(text[from:], "://") {
		from++ // skips the second sign of ":=", "=>" and "::"
	}
	rest := text[from:]
	if rest == "" || strings.HasPrefix(rest, Hidden) || strings.HasPrefix(rest, "//") {
		return none
	}
	sentence := text[at] == ':' && !quoted // it may also be YAML
	if sentence && (plainly(name) || !NamedThroughout(name)) {
		return none
	}
	if inner, end, is := quotedValue(rest); is {
		if noSecret(rest[inner:end]) {
			return none
		}
		return span{from + inner, from + end}
	}
	line, _, _ := strings.Cut(rest, "\n")
	if header(name) && text[at] == ':' {
		end := len(strings.TrimRight(line, "\r"))
		if quote := strings.IndexAny(line, `"'\`); quote >= 0 {
			end = quote
		}
		if end == 0 || !looksSecret(line[:end]) && !scheme.MatchString(line[:end]) {
			return none
		}
		return span{from, from + end}
	}
	end := valueEnd(rest)
	value := rest[:end]
	if end == 0 || noSecret(value) {
		return none
	}
	if sentence && !looksSecret(value) && strings.TrimSpace(line) != value &&
		(len(nameWords(name)) == 1 || slices.Contains(complaints, strings.ToLower(value))) {
		return none
	}
	return span{from, from + end}
}

// complaints lists words that follow a name in a sentence that says something about the name and
// does not give its value.
var complaints = []string{
	"the", "a", "an", "it", "this", "is", "are", "was", "has", "not", "no", "of", "in", "to", "for", "by", "must", "should", "cannot", "can", "could",
	"extra", "input", "inputs", "field", "value", "key", "name", "type", "expected", "invalid", "missing", "required", "unknown", "unexpected",
	"wrong", "empty", "unset", "set", "failed", "refused", "permission", "file", "please", "use", "string",
}

// header reports whether a name is a header whose value looks like a sentence.
func header(name string) bool {
	words := nameWords(name)
	return len(words) > 0 && slices.Contains([]string{"authorization", "cookie"}, words[len(words)-1])
}

var scheme = lazyregexp.New(`(?i)^(?:basic|bearer|token|digest|negotiate|apikey|aws4-hmac-sha256)\s+\S`)

// quotedValue returns the start and end of the text inside quotes. A backslash before the quotes
// means that the quoted text is inside another quoted text.
func quotedValue(text string) (from, to int, is bool) {
	quote := text[:1]
	if text[0] == '\\' && len(text) > 1 {
		quote = text[:2]
	}
	if last := quote[len(quote)-1]; last != '"' && last != '\'' && last != '`' {
		return 0, 0, false
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], quote):
			return len(quote), i, true
		case text[i] == '\\':
			i++
		}
	}
	return len(quote), len(text), true
}

// valueEnd returns where an unquoted value ends: at white space, at a quote or at the next
// parameter of an address. Punctuation that closes the surrounding sentence is not part of the
// value.
func valueEnd(text string) int {
	end := strings.IndexAny(text, " \t\r\n\"'`<>\\")
	if end < 0 {
		end = len(text)
	}
	if next := parameter.FindStringIndex(text[:end]); next != nil {
		end = next[0]
	}
	return len(strings.TrimRight(text[:end], ")]},;."))
}

var parameter = lazyregexp.New(`[&?][\w.-]+=`)

// noSecret reports whether a value cannot be a secret, whatever the value's name is.
func noSecret(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "null", "none", "yes", "no", "nil":
		return true
	}
	return strings.Trim(value, "*xX.") == "" || strings.HasPrefix(value, Hidden)
}

// looksSecret reports whether a word of a sentence does not look like a natural word, because it
// has letters of both cases, digits or signs.
func looksSecret(value string) bool {
	value = strings.TrimRight(value, ".,;:!?)")
	if len(value) < shortest {
		return false
	}
	lower := strings.IndexFunc(value, func(r rune) bool { return r >= 'a' && r <= 'z' }) >= 0
	upper := strings.IndexFunc(value[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' }) >= 0
	return lower && upper || strings.ContainsAny(value, "0123456789") || strings.ContainsAny(value, "!$%^*+~#")
}

// hideOptions hides the word after an option that names a secret. It also hides secrets that follow
// certain words without a name: curl's user, sshpass's password, a line of netrc.
func hideOptions(text string) string {
	if strings.Contains(text, "-") && strings.ContainsAny(text, " \t\n") {
		text = option.ReplaceAllStringFunc(text, func(found string) string {
			part := option.FindStringSubmatch(found)
			if hidesNext(part[2], part[4]) {
				return part[1] + part[2] + part[3] + Hidden
			}
			return found
		})
	}
	for _, spoken := range spoken {
		if strings.Contains(text, spoken.literal) {
			text = spoken.pattern.ReplaceAllStringFunc(text, func(found string) string {
				part := spoken.pattern.FindStringSubmatch(found)
				if strings.HasPrefix(part[2], Hidden) || !spoken.any && !looksSecret(part[2]) {
					return found
				}
				return part[1] + Hidden
			})
		}
	}
	return text
}

// spokenAtEnd returns the length of a secret at the end of a text. The secret follows words that
// take a secret without naming it.
func spokenAtEnd(text string) int {
	for _, spoken := range spoken {
		if !strings.Contains(text, spoken.literal) {
			continue
		}
		all := spoken.pattern.FindAllStringSubmatchIndex(text, -1)
		if all == nil {
			continue
		}
		if last := all[len(all)-1]; last[1] == len(text) && (spoken.any || looksSecret(text[last[4]:])) {
			return len(text) - last[4]
		}
	}
	return 0
}

var option = lazyregexp.New(`(^|[^\w-])(--?[A-Za-z][\w.-]*)(\s+["']?)([^\s"'\-\\][^\s"'\\]*)`)

// hidesNext reports whether the word after an option is the secret that the option names. A
// placeholder in capitals, as in help texts, is not a secret.
func hidesNext(option, value string) bool {
	placeholder := strings.ToUpper(value) == value && strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
	switch {
	case strings.HasPrefix(value, Hidden), noSecret(value), placeholder, strings.ContainsAny(value[:1], "<[|&;>"):
		return false
	case option == "-k":
		return !strings.Contains(value, "://") && looksSecret(value) && !number.MatchString(value)
	case option == "-u", option == "--user", option == "-U", option == "--proxy-user":
		user, password, both := strings.Cut(value, ":")
		return both && user+password != "" && strings.Trim(user+password, "0123456789") != "" // user and group IDs are not secrets
	}
	return Named(option)
}

var number = lazyregexp.New(`^[-+]?[0-9][0-9._]*(?:[eE][-+]?[0-9]+)?$`)

var spoken = []struct {
	literal string
	pattern *lazyregexp.Regexp
	any     bool // the option hides any word after it
}{
	{"sshpass", lazyregexp.New(`(sshpass\s+(?:-[a-oq-z]\s+)*-p\s*["']?)([^\s"'\\]+)`), true},
	{"login", lazyregexp.New(`(login\s+\S+\s+password\s+)([^\s"'\\]+)`), true},
	{"earer ", lazyregexp.New(`([Bb]earer\s+)([\w.~+/=-]{8,})`), false},
	{"asic ", lazyregexp.New(`([Bb]asic\s+)([\w+/=-]{8,})`), false},
}

// Arguments returns the words of a command without secrets. They are for reports, which are kept
// and shared. The command that preflight starts is not changed.
func Arguments(words []string) []string {
	shown := slices.Clone(words)
	for i, word := range words {
		if i > 0 && announces(words[:i], word) && !strings.HasPrefix(word, "-") {
			shown[i] = Hidden
			continue
		}
		shown[i] = hideWord(word)
		const sentence = 5 // number of words in: login NAME password WORD
		if spoken := spokenAtEnd(strings.Join(words[max(0, i-sentence+1):i+1], " ")); 0 < spoken && spoken <= len(word) {
			shown[i] = word[:len(word)-spoken] + Hidden
		}
	}
	return shown
}

// announces reports whether the next word is a secret: the value of an option, of a header, or of a
// variable that MPICH's launchers accept as two words.
func announces(before []string, next string) bool {
	name := before[len(before)-1]
	if variable := len(before) > 1 && slices.Contains([]string{"-env", "-genv"}, before[len(before)-2]); variable {
		return Named(name)
	}
	if header := strings.TrimRight(name, ":="); header != name && !strings.ContainsAny(header, "=:") && Named(header) {
		return true // the header was typed without quotes
	}
	if !strings.HasPrefix(name, "-") || strings.ContainsAny(name, "=:") {
		return false
	}
	return Named(name) || next != "" && hidesNext(name, next)
}

// hideWord hides everything after the first secret of a word. A word may be a setting or a list of
// settings, an address with a query, a header, or JSON.
func hideWord(word string) string {
	from := 0
	for i, r := range word {
		if (r == '=' || r == ':') && Named(word[from:i]) && i+1 < len(word) {
			return Hide(word[:i+1]) + Hidden
		}
		if strings.ContainsRune("=:, ;&?/{}[]()\n\t", r) {
			from = i + 1
		}
	}
	return Hide(word)
}
