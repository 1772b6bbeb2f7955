// SPDX-License-Identifier: Apache-2.0

// Package text turns values into text that people read or paste. It quotes, escapes, counts and
// lists values.
package text

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/dustin/go-humanize"

	"preflight/internal/lazyregexp"
)

// Nearest returns the word that differs from the given word by the fewest missing, added or changed
// letters. Of several equally near words it returns the first. It returns "" if none is within most
// changes.
func Nearest(word string, among []string, most int) string {
	nearest, least := "", most+1
	size := utf8.RuneCountInString(word)
	for _, other := range among {
		if apart := size - utf8.RuneCountInString(other); max(apart, -apart) >= least {
			continue // the difference between the lengths alone is too large
		}
		if d := levenshtein.ComputeDistance(word, other); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}

// Meant returns the known word that the user likely meant with an unknown word, "" if none is near.
// About one letter in three may be wrong. In a word with fewer than five letters, two letters may
// be wrong if the first one is right: "sey" may be "says", but "foo" is not "job".
func Meant(word string, among []string) string {
	word = strings.ToLower(word)
	if near := Nearest(word, among, min(1, len(word)-1)); near != "" {
		return near
	}
	if len(word) < 5 {
		among = slices.DeleteFunc(slices.Clone(among), func(other string) bool { return other == "" || word == "" || other[0] != word[0] })
	}
	return Nearest(word, among, min(max(2, len(word)/3), len(word)-1))
}

// DidYouMean returns the question "did you mean" for a word, as the end of a sentence. It returns
// "" if the word is "".
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

// Some returns the first names, at most most of them, and the number of the others: "w1, w2 and 7
// more".
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// MostListed is the maximum number of facts that are listed for one cause.
const MostListed = 8

// Plural returns a number with its noun: "1 node", "3 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// HostPort returns an endpoint as HOST:PORT, with brackets for IPv6.
func HostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// Quote quotes a word so that it can be pasted into a POSIX shell.
func Quote(word string) string {
	if IsPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsPlain reports whether a shell leaves the word unchanged, however often it is parsed. A word
// that goes through ssh is parsed on both machines.
func IsPlain(word string) bool {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+=:,./_-", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}

// Map returns the results of a function for each value.
func Map[V, T any](values []V, into func(V) T) (all []T) {
	for _, value := range values {
		all = append(all, into(value))
	}
	return all
}

// Group holds the values with the same key.
type Group[K comparable, V any] struct {
	Key K
	All []V
}

// GroupBy groups values with the same key, in the order in which the keys first occur.
func GroupBy[K comparable, V any](values []V, key func(V) K) (groups []Group[K, V]) {
	at := map[K]int{}
	for _, value := range values {
		k := key(value)
		i, met := at[k]
		if !met {
			i = len(groups)
			at[k] = i
			groups = append(groups, Group[K, V]{Key: k})
		}
		groups[i].All = append(groups[i].All, value)
	}
	return groups
}

// markCommand matches the start of a command that CI runners obey wherever a step prints it:
// GitHub's ##[NAME], Azure's ##vso[NAME] and TeamCity's ##teamcity[NAME]. Without escaping, the
// version text of a package could turn off the rest of a log.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParse; Azure
// Pipelines, "Logging commands"; TeamCity, "Service Messages".
var markCommand = lazyregexp.New(`##(\w*\[)`)

// Escape makes text from a node harmless on a terminal. Control characters, and invisible
// characters that reorder or hide text, become \x1b or \u202e. The first character of a CI runner's
// command becomes \x23. A line break or a tab becomes a space, so a caller that needs lines splits
// them first.
func Escape(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == unicode.ReplacementChar, unicode.IsPrint(r):
			out.WriteRune(r)
		case r == '\t', r == '\n': // callers that need lines have already split them
			out.WriteByte(' ')
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	if strings.Contains(text, "##") {
		return markCommand.ReplaceAllString(out.String(), `\x23#$1`)
	}
	return out.String()
}

// Duration returns seconds in the usual unit for their size: "840 µs", "3.4 ms", "1.7 s", "30 min".
// Uptimes are in hours or days, because a number of six digits says less. counted.js of the HTML
// report has the same rules.
func Duration(seconds float64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch long := math.Abs(seconds); {
	case long == 0:
		return "0 s"
	case long < 0.9995e-3: // values that round to a thousand use the next unit
		return brief(seconds*1e6) + " µs"
	case long < 0.9995:
		return brief(seconds*1e3) + " ms"
	case long < 2*minute:
		return brief(seconds) + " s"
	case long < 2*hour:
		return brief(seconds/minute) + " min"
	case long < 2*day:
		return brief(seconds/hour) + " h"
	default:
		return brief(seconds/day) + " days"
	}
}

// brief returns a number with one decimal, from 10 on without decimals.
func brief(number float64) string {
	if math.Abs(number) < 9.95 {
		return strconv.FormatFloat(math.Round(number*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(number), 'f', -1, 64)
}

// BitRate returns a rate in bit/s: "9.4 Gbit/s".
func BitRate(rate float64) string { return humanize.SIWithDigits(rate, 1, "bit/s") }
