package report

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Wrote is whether the file is a report of any schema in any of our formats, a list of
// hosts of ours, or empty, so that nothing of a user's is lost with it.
func Wrote(in io.Reader) bool {
	buffered := bufio.NewReaderSize(in, mostOfStart)
	first, err := buffered.Peek(1)
	switch {
	case err == io.EOF:
		return true
	case err != nil:
		return false
	case first[0] == '{':
		return beginsAsJSON(buffered)
	}
	return beginsAsOurs(buffered) || beginsAsText(buffered)
}

// beginnings are what a file of one of the formats begins with.
var beginnings = []string{junitStart, htmlStart, githubStart, prometheusStart, goodHostsStart, badHostsStart}

var (
	// statusLine is a whole file for Nagios: people append such lines to notes of theirs.
	statusLine = regexp.MustCompile(`^PREFLIGHT (?:OK|WARNING|CRITICAL|UNKNOWN) - [^\n]*\n?$`)
	// summaryStart is a summary's marker and what we write behind it: the marker alone may
	// stand above a comment of theirs.
	summaryStart = regexp.MustCompile(`^` + regexp.QuoteMeta(markdownStart) +
		`\n(?:## (?:FAIL|WARN|UNKNOWN|PASS): |\| nodes \| fact \| before \| after \|\n|Nothing changed(?:\.\n$| of what could be compared\.\n))`)
)

// mostOfStart is how much of a file is looked at: more than the longest status line.
const mostOfStart = 1 << 14

func beginsAsOurs(in *bufio.Reader) bool {
	start, err := in.Peek(mostOfStart)
	return err == io.EOF && statusLine.Match(start) || summaryStart.Match(start) || slices.ContainsFunc(beginnings, func(beginning string) bool {
		return strings.HasPrefix(string(start), beginning)
	})
}

// beginsAsJSON looks no further than the schema, which JSON writes first.
func beginsAsJSON(in io.Reader) bool {
	decoder := json.NewDecoder(in)
	var tokens [3]json.Token
	for i := range tokens {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		tokens[i] = token
	}
	_, isNumber := tokens[2].(float64)
	return tokens[1] == "schema" && isNumber
}

// summaryLine is how the second line of a text report begins.
var summaryLine = regexp.MustCompile(`^\d+ (?:node|file)s?,`)

func beginsAsText(in *bufio.Reader) bool {
	lines := bufio.NewScanner(in)
	lines.Scan()
	word, _, _ := strings.Cut(lines.Text(), "  ")
	lines.Scan()
	isVerdict := slices.Contains(slices.Collect(maps.Values(words)), word)
	return isVerdict && summaryLine.MatchString(lines.Text())
}
