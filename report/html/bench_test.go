// SPDX-License-Identifier: Apache-2.0

package html

import (
	"slices"
	"testing"
)

// BenchmarkHTMLInBrowser measures the size of the page of 1,000 nodes, and the time from when a
// browser begins to read the file until the whole page responds.
func BenchmarkHTMLInBrowser(b *testing.B) {
	r := largeFleet(b, 1000)
	page := newTab(b)
	var ready, painted []float64
	for b.Loop() {
		page.open(r)
		ready = append(ready, ask[float64](page, `performance.getEntriesByName("ready")[0].startTime`))
		painted = append(painted, await(page, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`, func(ms float64) bool { return ms > 0 }))
	}
	slices.Sort(ready)
	slices.Sort(painted)
	b.ReportMetric(0, "ns/op") // leave out this value, because it includes writing the page and starting a browser
	b.ReportMetric(float64(len(htmlOf(b, r)))/1e6, "MB")
	b.ReportMetric(ready[len(ready)/2], "ms-until-it-answers")
	b.ReportMetric(painted[len(painted)/2], "ms-until-it-shows")
}
