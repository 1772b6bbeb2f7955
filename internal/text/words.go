// SPDX-License-Identifier: Apache-2.0

// Package text turns values into words that people read or paste: quoted, escaped, counted, listed.
package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Nearest is the word that is the fewest letters away, missing, added or changed, the
// first of equals; "" when none is within so many.
func Nearest(word string, among []string, most int) string {
	nearest, least := "", most+1
	size := utf8.RuneCountInString(word)
	for _, other := range among {
		if apart := size - utf8.RuneCountInString(other); max(apart, -apart) >= least {
			continue // by its length alone
		}
		if d := levenshtein.ComputeDistance(word, other); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}

// Meant is the word that was likely meant by one that is not known, "" when none is near:
// about one letter in three may be wrong, and two of a short word, but never all.
func Meant(word string, among []string) string {
	return Nearest(strings.ToLower(word), among, min(max(2, len(word)/3), len(word)-1))
}

// DidYouMean asks for a word that is near, as the rest of a sentence; "" for none.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", near)
}

func List(parts []string) string {
	if more := len(parts) - MostListed; more > 0 {
		parts = append(slices.Clone(parts[:MostListed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// MostListed is how many facts of one cause are listed.
const MostListed = 8

// Plural counts things: "1 node", "3 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Quote quotes a word for a person to paste into a POSIX shell.
func Quote(word string) string {
	if IsPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsPlain reports whether a shell takes the word as it stands, however often it is parsed:
// what goes through ssh is parsed once here and once there.
func IsPlain(word string) bool {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+=:,./_-", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}
