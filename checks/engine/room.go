// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"preflight/checks"
)

// What a report has room for, in bytes. Nodes are not trusted, and what is found on them
// tells of what they said.
const (
	longestWords = 4 << 10  // of a summary, of what was got and of what is wanted
	longestFix   = 64 << 10 // of a command, which may name a thousand nodes
	mostChanges  = 1 << 10  // of a finding, and one more for every node
	roomOfReport = 1 << 20  // for all findings
	roomOfNode   = 16 << 10 // of the launch, more
)

// fitting are the findings that a report has room for, none of them too long. They come with
// the gravest first, so that what is left out weighs least, and one of each verdict stays.
func fitting(findings []checks.Finding, nodes int) (kept []checks.Finding, leftOut int) {
	room := roomOfReport + roomOfNode*nodes
	kept = findings[:0]
	met := map[checks.Verdict]bool{}
	for _, f := range findings {
		shorten(&f, nodes)
		if size := sizeOf(f); size <= room || !met[f.Verdict] {
			met[f.Verdict] = true
			room -= size
			kept = append(kept, f)
		}
	}
	clear(findings[len(kept):])
	return kept, len(findings) - len(kept)
}

func shorten(f *checks.Finding, nodes int) {
	for _, words := range []*string{&f.Summary, &f.Got, &f.Want, &f.WouldSee} {
		*words = cut(*words)
	}
	for i := range f.Notes {
		f.Notes[i] = cut(f.Notes[i])
	}
	var fixes []string
	for _, line := range f.Fix {
		if len(line) > longestFix { // half a command may do anything
			f.Notes = append(f.Notes, fmt.Sprintf("a command of %d bytes is left out: look by hand", len(line)))
			continue
		}
		fixes = append(fixes, line)
	}
	f.Fix = fixes
	f.Changes = f.Changes[:min(len(f.Changes), mostChanges+nodes)]
}

// cut is the beginning of words that are too long, and says so.
func cut(words string) string {
	if len(words) <= longestWords {
		return words
	}
	end := longestWords
	for !utf8.RuneStart(words[end]) && end > longestWords-utf8.UTFMax {
		end--
	}
	return fmt.Sprintf("%s … (%d bytes more)", strings.TrimSpace(words[:end]), len(words)-end)
}

func sizeOf(f checks.Finding) (size int) {
	const punctuation = 8 // around each text
	texts := [][]string{{f.Check, f.Summary, f.Got, f.Want, f.WouldSee, f.Fact}, f.Nodes, f.Fix, f.Notes}
	for _, some := range texts {
		for _, text := range some {
			size += len(text) + punctuation
		}
	}
	for _, c := range f.Changes {
		size += len(c.Node) + len(c.Fact) + len(c.Before) + len(c.After) + 4*punctuation
	}
	return size
}
