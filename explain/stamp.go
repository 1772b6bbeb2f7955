// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stamp is when a line was written. Many logs tell no year and none of them a
// zone, so that it is only good for saying which of two lines was first.
type stamp struct {
	time.Time
}

func (s stamp) known() bool { return !s.IsZero() }

// leap is the year given to stamps that tell none: it has every date.
const leap = 2000

var stamps = []struct {
	pattern *regexp.Regexp
	month   int // group of the month
	rest    int // group of the day; hour, minute, second and fraction follow
}{
	// 2024-09-05 09:40:49,421, 2024-09-05T09:40:49.421Z and 2024/09/05 09:40:49
	{regexp.MustCompile(`\b(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?`), 2, 3},
	// glog of torch: month and day without a separator, the month without a zero
	// (c10/util/Logging.cpp) or with one (torch/_logging)
	{regexp.MustCompile(`(?:^|\[|[ :])[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?`), 1, 2},
	// 09/05/2024 09:40:49, as Hugging Face's examples and Lightning's have it
	{regexp.MustCompile(`\b(\d\d)/(\d\d)/\d{4},? (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?`), 1, 2},
	// syslog and dmesg -T
	{regexp.MustCompile(`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?`), 1, 2},
}

var months = map[string]int{"Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12}

// stampWithin is how far into a line its stamp may stand.
const stampWithin = 160

// stampOf finds when a line was written.
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

// clock is whether hours, minutes and seconds are anywhere in the text: most lines
// that are looked at have none, and this costs a hundredth of what the patterns do.
func clock(text []byte) bool {
	for i := 2; i+5 < len(text); i++ {
		if text[i] == ':' && text[i+3] == ':' && digit(text[i-2]) && digit(text[i-1]) && digit(text[i+1]) && digit(text[i+2]) && digit(text[i+4]) && digit(text[i+5]) {
			return true
		}
	}
	return false
}

// earlier is whether a was before b. Half a year apart, the other year was meant.
func (a stamp) earlier(b stamp) bool {
	const halfYear = 183 * 24 * time.Hour
	if apart := b.Sub(a.Time); apart > halfYear || apart < -halfYear {
		return apart < 0
	}
	return a.Before(b.Time)
}

// String is the stamp as logs tell it, without a year; "" where there is none.
func (s stamp) String() string {
	if !s.known() {
		return ""
	}
	return s.Format("01-02 15:04:05.999999")
}
