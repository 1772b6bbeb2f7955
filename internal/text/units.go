// SPDX-License-Identifier: Apache-2.0

package text

import (
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// Duration says seconds in the unit that people use for so many of them: "840 µs", "3.4 ms",
// "1.7 s", "30 min". As long as a computer runs, hours say more than a number of six digits.
// counted.js of the HTML report says the same.
func Duration(seconds float64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch long := math.Abs(seconds); {
	case long == 0:
		return "0 s"
	case long < 0.9995e-3: // what rounds to a thousand is one of the next unit
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

// brief is a number with one digit behind the point, and from 10 on with none.
func brief(number float64) string {
	if math.Abs(number) < 9.95 {
		return strconv.FormatFloat(math.Round(number*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(number), 'f', -1, 64)
}

// BitRate says a rate in bit/s: "9.4 Gbit/s".
func BitRate(rate float64) string { return humanize.SIWithDigits(rate, 1, "bit/s") }
