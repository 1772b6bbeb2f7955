// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"strings"

	"preflight/internal/lazyregexp"
)

// leastRandom is the minimum length of a random word, because shorter names and versions look
// random too.
const leastRandom = 40

// hideRandom hides words that look machine-generated.
func hideRandom(text string) string {
	var out strings.Builder
	done, from := 0, 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && isBase64(text[i]) {
			continue
		}
		if i-from >= leastRandom {
			for _, word := range words(text, from, i) {
				if random(text[:word.from], text[word.from:word.to]) {
					out.WriteString(text[done:word.from] + Hidden)
					done = word.to
				}
			}
		}
		from = i + 1
	}
	return out.String() + text[done:]
}

func isBase64(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '_' || c == '-' }

// words returns the parts of a path. It returns any other text as a whole, because base64 has
// slashes too. It skips the host of an address.
func words(text string, from, to int) (all []span) {
	if address, is := strings.CutPrefix(text[from:to], "//"); is {
		from = to - len(address) + strings.IndexByte(address, '/') + 1
	}
	parts := strings.Split(text[from:to], "/")
	if parts[0] != "" && !slices.ContainsFunc(parts, isWord) {
		return []span{{from, to}}
	}
	for _, part := range parts {
		all = append(all, span{from, from + len(part)})
		from += len(part) + 1
	}
	return all
}

// isWord reports whether a part of a path is a natural word.
func isWord(part string) bool {
	return len(part) >= 3 && strings.Trim(part[1:], "abcdefghijklmnopqrstuvwxyz-_") == ""
}

// random reports whether a word changes between lower case, upper case and digits as only generated
// words do.
func random(before, word string) bool {
	for _, known := range []string{"SHA256:", "SHA512:", "world_info="} { // fingerprints, and DeepSpeed's list of hosts
		if strings.HasSuffix(before, known) {
			return false
		}
	}
	for _, known := range []string{"AAAA", "_Z", "sha256-", "sha384-", "sha512-"} { // public keys, symbols of C++, digests
		if strings.HasPrefix(word, known) {
			return false
		}
	}
	word = uuid.ReplaceAllString(word, "") // UUIDs, also those of GPUs and their parts
	made := makeup(word)
	return len(word) >= leastRandom && min(made.lower, made.upper, made.digits) > 0 &&
		5*made.turns >= 2*(made.lower+made.upper+made.digits)
}

var uuid = lazyregexp.New(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)

// characteristics counts the characters of a word by kind. turns counts how often the kind changes
// from one character to the next.
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
