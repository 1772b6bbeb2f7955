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

// Kept is what is lost with a file that is written over, the least first. What is worth
// as much or more may replace it.
type Kept int

const (
	Foreign            Kept = iota // a user's own: not to be written over at all
	Rendering                      // a report that judging a run again would bring back, a list of hosts, or nothing
	SavedRun                       // what nodes told, which only another run would bring
	NormalizedSnapshot             // what [Normalized] writes, to be committed and reviewed
)

// Wrote is what a file holds: a report of any schema in any of our formats or a list of
// hosts of ours, or else what is [Foreign]. A file that cannot be read is that, too.
func Wrote(in io.Reader) Kept {
	buffered := bufio.NewReaderSize(in, mostOfStart)
	first, err := buffered.Peek(1)
	switch {
	case err == io.EOF:
		return Rendering
	case err != nil:
		return Foreign
	case first[0] == '{':
		return keptInJSON(buffered)
	case beginsAsOurs(buffered) || beginsAsText(buffered):
		return Rendering
	}
	return Foreign
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

// keptInJSON looks no further than the schema, which JSON writes first, the key behind it,
// by which a normalized snapshot is known, and the nodes. Of a file that was cut short
// nobody reads any.
func keptInJSON(in io.Reader) Kept {
	decoder := json.NewDecoder(in)
	var start [3]json.Token
	for i := range start {
		token, err := decoder.Token()
		if err != nil {
			return Foreign
		}
		start[i] = token
	}
	if _, isNumber := start[2].(float64); start[1] != "schema" || !isNumber {
		return Foreign
	}
	for second := true; decoder.More(); second = false {
		key, err := decoder.Token()
		if err != nil {
			break
		}
		if key == "nodes" {
			return keptInNodes(decoder)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			break
		}
		if second && key == "normalized" && string(value) == "true" {
			return NormalizedSnapshot
		}
	}
	return Rendering
}

// keptInNodes is whether there is a node in the list that comes.
func keptInNodes(decoder *json.Decoder) Kept {
	if begin, err := decoder.Token(); err == nil && begin == json.Delim('[') && decoder.More() {
		return SavedRun
	}
	return Rendering
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
