// SPDX-License-Identifier: Apache-2.0

package logtext

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Stamp is the time at which a line was written. Many logs have no year and none has a time zone,
// so a Stamp only shows which of two lines came first.
type Stamp struct {
	time.Time
}

func (s Stamp) Known() bool { return !s.IsZero() }

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

// StampOf returns the time at which a line was written, and false if the line has no time stamp.
func StampOf(text []byte) (Stamp, bool) {
	text = text[:min(len(text), stampWithin)]
	if !HasTime(text) {
		return Stamp{}, false
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
		return Stamp{time.Date(leap, time.Month(month), day, hour, minute, second, int(fraction), time.UTC)}, true
	}
	return Stamp{}, false
}

// HasTime reports whether the text contains hours, minutes and seconds. Most lines contain no time,
// and HasTime takes a hundredth of the time of the patterns.
func HasTime(text []byte) bool {
	for i := 2; i+5 < len(text); i++ {
		if text[i] == ':' && text[i+3] == ':' && digit(text[i-2]) && digit(text[i-1]) && digit(text[i+1]) && digit(text[i+2]) && digit(text[i+4]) && digit(text[i+5]) {
			return true
		}
	}
	return false
}

// Earlier reports whether a was before b. If they are more than half a year apart, they belong to
// different years.
func (a Stamp) Earlier(b Stamp) bool {
	const halfYear = 183 * 24 * time.Hour
	if apart := b.Sub(a.Time); apart > halfYear || apart < -halfYear {
		return apart < 0
	}
	return a.Before(b.Time)
}

// String returns the stamp in the form of logs, without a year. It returns "" if there is no stamp.
func (s Stamp) String() string {
	if !s.Known() {
		return ""
	}
	return s.Format("01-02 15:04:05.999999")
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
