// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"encoding/base64"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"preflight/internal/lazyregexp"
)

const (
	leastRandom = 24  // characters, below which names and versions look random too
	leastInPath = 40  // of a part of a path: directories are named after runs
	leastBits   = 3.5 // for a character
	leastTurns  = 0.4 // for a character, from lower case to upper, to digit: words have few
)

// hideRandom hides the words that no person chose and that are no digest: letters in both
// cases and digits, in no order.
func hideRandom(text string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		if !isRandomByte(text[i]) {
			i++
			continue
		}
		from := i
		for i < len(text) && isRandomByte(text[i]) {
			i++
		}
		if i-from < leastRandom || toldApart(text[:from], text[from:i]) {
			continue
		}
		for _, part := range randomParts(text[from:i]) {
			out.WriteString(text[done : from+part.from])
			out.WriteString(Hidden)
			done = from + part.to
		}
	}
	if done == 0 {
		return text
	}
	return out.String() + text[done:]
}

func isRandomByte(c byte) bool {
	return isAlnum(c) || c == '+' || c == '/' || c == '_' || c == '-' || c == '='
}

// toldApart is whether what stands before a word or how it begins says that it is no secret:
// a fingerprint, a digest, a public key, a symbol of C++.
func toldApart(before, text string) bool {
	for _, kind := range []string{"SHA256:", "SHA512:", "MD5:", "sha256:", "sha512:"} {
		if strings.HasSuffix(before, kind) {
			return true
		}
	}
	for _, start := range []string{"AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh", "AAAAG", "AAAAI", "_Z", "sha256-", "sha384-", "sha512-"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// randomParts are those of a word that are random: all of it, as in base64, or what stands
// between slashes.
func randomParts(text string) (parts []span) {
	from := 0
	if name := strings.IndexByte(strings.TrimRight(text, "="), '='); name >= 0 { // NAME=VALUE
		from = name + 1
	}
	if host, ok := strings.CutPrefix(text[from:], "//"); ok && strings.Contains(host, "/") { // of an address
		from = len(text) - len(host) + strings.IndexByte(host, '/') + 1
	}
	whole := text[from:]
	isPath := strings.HasPrefix(whole, "/")
	if !isPath && len(whole) >= leastRandom && strings.Count(whole, "/") <= len(whole)/12 && !hasPlainPart(whole) && random(whole) {
		return []span{{from, len(text)}}
	}
	least := leastRandom
	if isPath {
		least = leastInPath
	}
	for at := from; at < len(text); {
		size := strings.IndexByte(text[at:], '/')
		if size < 0 {
			size = len(text) - at
		}
		if size >= least && random(text[at:at+size]) {
			parts = append(parts, span{at, at + size})
		}
		at += size + 1
	}
	return parts
}

// hasPlainPart is whether one of the parts between slashes is a plain word, as in a path.
func hasPlainPart(text string) bool {
	if !strings.Contains(text, "/") {
		return false
	}
	for part := range strings.SplitSeq(text, "/") {
		if len(part) >= 3 && strings.Trim(part[1:], "abcdefghijklmnopqrstuvwxyz-_") == "" {
			return true
		}
	}
	return false
}

// random is whether a word looks as if it came from a generator. One that is a text in
// base64 is as secret as the text.
func random(text string) bool {
	made := makeup(uuid.ReplaceAllString(text, ""))
	if made.lower < 2 || made.upper < 2 || made.digits < 1 || float64(made.turns) < leastTurns*float64(made.lower+made.upper+made.digits) {
		return false
	}
	var count [256]int
	for i := range len(text) {
		count[text[i]]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			share := float64(n) / float64(len(text))
			bits -= share * math.Log2(share)
		}
	}
	if bits < leastBits {
		return false
	}
	if plain, is := fromBase64(text); is {
		return Hide(plain) != plain
	}
	return true
}

var uuid = lazyregexp.New(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`) // also of GPUs and their parts

// characteristics are how many characters of a word are what, and how often one is followed
// by another kind.
type characteristics struct{ lower, upper, digits, turns int }

func makeup(text string) (made characteristics) {
	var before *int
	for i := range len(text) {
		var kind *int
		switch c := text[i]; {
		case c >= 'a' && c <= 'z':
			kind = &made.lower
		case c >= 'A' && c <= 'Z':
			kind = &made.upper
		case c >= '0' && c <= '9':
			kind = &made.digits
		default:
			continue
		}
		*kind++
		if before != nil && kind != before {
			made.turns++
		}
		before = kind
	}
	return made
}

// fromBase64 is the text that a word is in base64, where that is a text.
func fromBase64(word string) (string, bool) {
	word = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(word, "="))
	plain, err := base64.RawStdEncoding.DecodeString(word)
	if err != nil || !utf8.Valid(plain) || strings.ContainsFunc(string(plain), func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) {
		return "", false
	}
	return string(plain), true
}
