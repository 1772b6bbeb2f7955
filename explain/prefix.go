// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"preflight/internal/literal"
)

// speaker is the writer of a line, as far as the line shows it.
type speaker struct {
	node  string
	rank  string // the global rank
	local string // the rank's index on its node, if the launcher shows only that index
}

// decorations holds the prefixes that may come before a message. The set has each form, and then each
// form with words that are no nodes in place of the node.
var decorations = sync.OnceValue(func() (all struct {
	*literal.Set
	forms []*regexp.Regexp
}) {
	texts := tables().Prefixes
	for _, text := range texts {
		all.forms = append(all.forms, regexp.MustCompile(text))
		if node := nodeGroup.FindString(text); node != "" {
			text = strings.Replace(text, node, notNodes, 1)
		} else {
			text = never
		}
		texts = append(texts, text)
	}
	all.Set = literal.MustSet(texts...)
	return all
})

// never matches nothing.
const never = `^[^\x00-\x{10ffff}]`

var nodeGroup = regexp.MustCompile(`\(\?P<node>[^()]*\)`)

// notNodes matches words that the prefixes of tables.yaml would read as a host. Such words are a
// program, library, exception or interface before its error, a file before its line number, or a
// time.
const notNodes = `(?:[\w.-]*(?:Error|Exception|Warning|Interrupt)` +
	`|(?:python|bash|g?libc|lib|cuda)[\d.]*|[\w.-]*\.so(?:\.[\d.]+)?|(?:[\w.-]*-)?(?:gcc|g\+\+|clang|ld|make)-[\d.]+` +
	`|[\w.-]*\.(?:py|cc?|cpp|h|cu|sh|ya?ml|json|log)|(?:eth|ib|bond|docker|nvme|mlx\d_)\d|[EWIF][A-Z]?\d{3,4}|\d{1,2})`

// peel removes prefixes and returns the message and the writer that the prefixes name.
func peel(text string) (message string, who speaker) {
	message = undecorate(text, func(form *regexp.Regexp, prefix string) {
		for i, value := range form.FindStringSubmatch(prefix) {
			switch name := form.SubexpNames()[i]; {
			case value == "":
			case name == "node":
				who.node = value
			case name == "rank":
				who.rank = value
			case name == "local":
				who.local = value
			}
		}
	})
	return message, who
}

// Undecorated returns a line without the prefixes that launchers and log collectors add.
func Undecorated(line string) string { return undecorate(line, func(*regexp.Regexp, string) {}) }

// prefixWithin is the maximum length in bytes of the text before a message.
const prefixWithin = 400

// undecorate removes prefixes and calls removed for each.
func undecorate(text string, removed func(form *regexp.Regexp, prefix string)) string {
	all := decorations()
next:
	for range all.forms { // no line has more prefixes than there are kinds
		var ends [2 * mostForms]int
		all.Ends(text[:min(len(text), prefixWithin)], ends[:])
		for i, form := range all.forms {
			if end := ends[i]; end > 0 && ends[i+len(all.forms)] != end {
				removed(form, text[:end])
				text = text[end:]
				continue next
			}
		}
		break
	}
	return text
}

// mostForms is the maximum number of forms in tables.yaml.
const mostForms = 32

// torchrun's table of failures describes one rank on several lines: host and rank, then how it
// ended (torch/distributed/elastic/multiprocessing/errors/__init__.py, 1.9 to 2.15).
var (
	tableEnd  = literal.MustSet(`^ +(?:exitcode|error_file|traceback) +: `)
	tableHost = regexp.MustCompile(`^ +host +: (\S+)`)
	tableRank = regexp.MustCompile(`^ +rank +: (\d+) \(`)
)

// tableRows is the maximum number of table lines between the host and the line in question.
const tableRows = 4

// inTable returns the rank and node that the last line describes, if it is a line of torchrun's
// table of failures. This rank did not write the line.
func (r *recent) inTable(who speaker) speaker {
	for n := 1; n <= tableRows; n++ {
		l, ok := r.before(n)
		if !ok {
			break
		}
		row, _ := peel(string(l.text))
		if found := tableRank.FindStringSubmatch(row); found != nil {
			who.rank = found[1]
		}
		if found := tableHost.FindStringSubmatch(row); found != nil {
			who.node = found[1]
			break
		}
	}
	return who
}

var (
	fileEndings = regexp.MustCompile(`(?:\.(?:gz|zst|log|txt|out|err|stdout|stderr)(?:\.\d{1,3})?)+$`)
	fileWords   = regexp.MustCompile(`^(?:train|training|log|output|stdout|stderr|run|slurm-\d+)[-_.]+`)
	// genericNames matches the names that programs give to the log of every node or rank.
	genericNames = regexp.MustCompile(`^(?:stdout|stderr|log|output|train|training|run|slurm-\d+|(?:\w*_)?rank_\d+\.json|\w+_rank_\d+(?:\.\w+)?|-)?$`)
	ranks        = regexp.MustCompile(`^(?:(?:local|global)?[-_]?rank[-_]?)?\d+$`)
	dates        = regexp.MustCompile(`\d{4}-?\d\d-?\d\d`)
	// hostNames matches typical names of cluster hosts. runs matches names of runs and jobs, which
	// look similar to host names.
	hostNames = regexp.MustCompile(`^[A-Za-z][\w.-]*\d[\w.-]*$|^\d[\d.]+$`)
	runs      = regexp.MustCompile(`(?i)^(?:attempt|epoch|err(?:or)?s?|exp(?:eriment)?|iter|job|log|out(?:put)?|part|phase|results?|round|run|seed|slurm|stage|step|task|test|train(?:ing)?|trial|try|v|version)s?[-_.]?[\d.]+$`)
)

// nodeOfFile guesses the node from the name of one of several logs: logs/w3.log, train-w3.out,
// w3/stdout. It returns "" for torchrun's attempt_0/3/stderr.log, errors.txt and job-17/output.
func nodeOfFile(name string) string {
	for range 2 {
		folder, file := path.Split(name)
		file = fileEndings.ReplaceAllString(file, "")
		if !genericNames.MatchString(file) {
			file = fileWords.ReplaceAllString(file, "")
			if !hostNames.MatchString(file) || ranks.MatchString(file) || dates.MatchString(file) || runs.MatchString(file) {
				return ""
			}
			return file
		}
		name = strings.TrimSuffix(folder, "/")
	}
	return ""
}
