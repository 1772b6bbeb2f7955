// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// speaker is the writer of a line, as far as the line shows it.
type speaker struct {
	node  string
	rank  string // the global rank
	local string // the rank's index on its node, if the launcher shows only that index
}

// decorations returns the prefixes that may come before a message.
var decorations = sync.OnceValue(func() (all []expression) {
	for _, text := range tables().Prefixes {
		one, err := parse(text, 1)
		if err != nil {
			panic(err)
		}
		all = append(all, one)
	}
	return all
})

// notNodes matches words that the prefixes of tables.yaml would read as a host. Such words are a
// program, library, exception or interface before its error, a file before its line number, or a
// time.
var notNodes = regexp.MustCompile(`(?:Error|Exception|Warning|Interrupt)$` +
	`|^(?:python|bash|g?libc|lib|cuda)[\d.]*$|\.so(?:\.[\d.]+)?$|(?:^|-)(?:gcc|g\+\+|clang|ld|make)-[\d.]+$` +
	`|\.(?:py|cc?|cpp|h|cu|sh|ya?ml|json|log)$|^(?:eth|ib|bond|docker|nvme|mlx\d_)\d$|^[EWIF][A-Z]?\d{3,4}$|^\d{1,2}$`)

// These expressions match the fields in which log collectors put the writer of a JSON line:
// fluentd's kubernetes filter, Ray Train, Docker's tags and Python's JSON formatters. The line is
// kept whole, because its log level matters.
var (
	jsonRank = regexp.MustCompile(`"(?:global_|world_)?rank": ?"?(\d{1,7})\b`)
	jsonNode = regexp.MustCompile(`"(?:pod|pod_name|podName|node|node_name|hostname|host)": ?"([A-Za-z0-9][\w.-]*)"`)
)

func inJSON(text string) (who speaker) {
	if found := jsonRank.FindStringSubmatch(text); found != nil {
		who.rank = found[1]
	}
	if found := jsonNode.FindStringSubmatch(text); found != nil {
		who.node = found[1]
	}
	return who
}

// peel removes prefixes and returns the message and the writer that the prefixes name.
func peel(text string) (message string, who speaker) {
	if strings.HasPrefix(text, `{"`) {
		return text, inJSON(text)
	}
	for range len(decorations()) { // no line has more prefixes than there are kinds
		rest, found := peelOne(text, &who)
		if !found {
			break
		}
		text = rest
	}
	return text, who
}

// prefixWithin is the maximum length in bytes of the text before a message.
const prefixWithin = 400

func peelOne(text string, who *speaker) (rest string, found bool) {
	head := text[:min(len(text), prefixWithin)]
	for _, d := range decorations() {
		if !d.may(head) {
			continue
		}
		match := d.FindStringSubmatchIndex(head)
		if match == nil {
			continue
		}
		values := *who
		for i, name := range d.SubexpNames() {
			if name == "" || match[2*i] < 0 {
				continue
			}
			switch value := text[match[2*i]:match[2*i+1]]; name {
			case "node":
				values.node = value
			case "rank":
				values.rank = value
			case "local":
				values.local = value
			}
		}
		if notNodes.MatchString(values.node) {
			continue
		}
		*who = values
		return text[match[1]:], true
	}
	return text, false
}

// torchrun's table of failures describes one rank on several lines: host and rank, then how it
// ended (torch/distributed/elastic/multiprocessing/errors/__init__.py, 1.9 to 2.15).
var (
	tableEnd  = regexp.MustCompile(`^ +(?:exitcode|error_file|traceback) +: `)
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

// stamp is the time at which a line was written. Many logs have no year and none has a time zone,
// so a stamp only shows which of two lines came first.
type stamp struct {
	time.Time
}

func (s stamp) known() bool { return !s.IsZero() }

// leap is the year for stamps without one. A leap year has every date.
const leap = 2000

var stamps = []struct {
	pattern *regexp.Regexp
	month   int // index of the group with the month
	rest    int // index of the group with the day; hour, minute, second and fraction follow
}{
	// This expression is for 2024-09-05 09:40:49,421, for 2024-09-05T09:40:49.421Z and for
	// 2024/09/05 09:40:49.
	{regexp.MustCompile(`\b(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?`), 2, 3},
	// This expression is for torch's glog format, which has no separator between month and day. The
	// month has no leading zero in c10/util/Logging.cpp, and has one in torch/_logging.
	{regexp.MustCompile(`(?:^|\[|[ :])[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?`), 1, 2},
	// This expression is for 09/05/2024 09:40:49, as in Hugging Face's examples and Lightning.
	{regexp.MustCompile(`\b(\d\d)/(\d\d)/\d{4},? (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?`), 1, 2},
	// This expression is for syslog and dmesg -T.
	{regexp.MustCompile(`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?`), 1, 2},
}

var months = map[string]int{"Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12}

// stampWithin is the number of bytes at the start of a line in which the time stamp is searched.
const stampWithin = 160

// stampOf returns the time at which a line was written, and false if the line has no time stamp.
func stampOf(text []byte) (stamp, bool) {
	text = text[:min(len(text), stampWithin)]
	if !clock(text) {
		return stamp{}, false
	}
	for _, form := range stamps {
		found := form.pattern.FindSubmatch(text)
		if found == nil {
			continue
		}
		number := func(group int) int {
			text := string(found[group])
			if month, ok := months[text]; ok {
				return month
			}
			n, _ := strconv.Atoi(strings.TrimSpace(text))
			return n
		}
		fraction := time.Duration(0)
		if len(found) > form.rest+4 {
			fraction, _ = time.ParseDuration("0." + string(found[form.rest+4]) + "s")
		}
		month, day, hour, minute, second := number(form.month), number(form.rest), number(form.rest+1), number(form.rest+2), number(form.rest+3)
		if month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 {
			continue
		}
		return stamp{time.Date(leap, time.Month(month), day, hour, minute, second, int(fraction), time.UTC)}, true
	}
	return stamp{}, false
}

// clock reports whether the text contains hours, minutes and seconds. Most lines contain no time,
// and clock takes a hundredth of the time of the patterns.
func clock(text []byte) bool {
	for i := 2; i+5 < len(text); i++ {
		if text[i] == ':' && text[i+3] == ':' && digit(text[i-2]) && digit(text[i-1]) && digit(text[i+1]) && digit(text[i+2]) && digit(text[i+4]) && digit(text[i+5]) {
			return true
		}
	}
	return false
}

// earlier reports whether a was before b. If they are more than half a year apart, they belong to
// different years.
func (a stamp) earlier(b stamp) bool {
	const halfYear = 183 * 24 * time.Hour
	if apart := b.Sub(a.Time); apart > halfYear || apart < -halfYear {
		return apart < 0
	}
	return a.Before(b.Time)
}

// String returns the stamp in the form of logs, without a year. It returns "" if there is no stamp.
func (s stamp) String() string {
	if !s.known() {
		return ""
	}
	return s.Format("01-02 15:04:05.999999")
}
