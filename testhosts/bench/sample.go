// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is what was measured of one thing, a value each time.
type sample []float64

// at is the value that a part of the others lies below: at(0.5) is the median.
func (s sample) at(part float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(part*float64(len(sorted)-1)+0.5)]
}

func (s sample) median() float64 { return s.at(0.5) }

// stable is whether the middle half of the values lies close around their median.
func (s sample) stable() bool {
	const least, within = 3, 0.05
	return len(s) >= least && s.at(0.75)-s.at(0.25) <= within*s.median()
}

// text is the median and, where it was measured more than once, what the others are among.
func (s sample) text(digits int) string {
	if len(s) < 2 {
		return fmt.Sprintf("%.*f", digits, s.median())
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median(), digits, slices.Min(s), digits, slices.Max(s))
}

// by is every value divided by the one of the same round.
func (s sample) by(others sample) sample {
	ratios := make(sample, min(len(s), len(others)))
	for i := range ratios {
		ratios[i] = s[i] / others[i]
	}
	return ratios
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
