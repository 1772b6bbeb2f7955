// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is a list of measured values.
type sample []float64

// at returns the value below which the given share of the values lies. at(0.5) is the median.
func (s sample) at(part float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(part*float64(len(sorted)-1)+0.5)]
}

func (s sample) median() float64 { return s.at(0.5) }

// stable reports whether the middle half of the values is close to the median.
func (s sample) stable() bool {
	const least, within = 3, 0.05
	return len(s) >= least && s.at(0.75)-s.at(0.25) <= within*s.median()
}

// text returns the median and, if there are several values, their range.
func (s sample) text(digits int) string {
	if len(s) < 2 {
		return fmt.Sprintf("%.*f", digits, s.median())
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median(), digits, slices.Min(s), digits, slices.Max(s))
}

// by returns every value divided by the value of the same round in others.
func (s sample) by(others sample) sample {
	ratios := make(sample, min(len(s), len(others)))
	for i := range ratios {
		ratios[i] = s[i] / others[i]
	}
	return ratios
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
