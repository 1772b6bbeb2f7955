// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"runtime"
	"runtime/metrics"
	"testing"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/report"
	"preflight/testhosts/fleettest"
)

// counting counts the bytes that are written. For every MiB written, it measures how much memory is
// in use.
type counting struct{ written, most uint64 }

func (c *counting) Write(text []byte) (int, error) {
	before := c.written
	c.written += uint64(len(text))
	if c.written>>20 > before>>20 || before == 0 {
		c.most = max(c.most, held())
	}
	return len(text), nil
}

// held returns how many bytes of memory objects take, including objects that are not yet collected.
func held() uint64 {
	of := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(of)
	return of[0].Value.Uint64()
}

// BenchmarkReport10k writes the reports of fleets of 10,000 nodes with different faults in every
// format. It measures how much is written, and how much memory this takes in addition to the
// report.
func BenchmarkReport10k(b *testing.B) {
	for _, large := range fleettest.Large {
		b.Run(large.Name, func(b *testing.B) {
			fleet := large.Of(10_000)
			r := engine.Evaluate(catalogue.Catalogue, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
			for _, format := range All {
				b.Run(format.Name, func(b *testing.B) {
					b.ReportAllocs()
					runtime.GC()
					before, c := held(), counting{}
					began := fleettest.CPUSeconds()
					for b.Loop() {
						c = counting{most: c.most}
						if err := format.Render(&c, r, report.Style{}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric((fleettest.CPUSeconds()-began)/float64(b.N), "cpu-s/op") // processor time does not depend on what else runs on the machine
					b.ReportMetric(float64(c.written), "written-B")
					b.ReportMetric(float64(c.most-min(c.most, before))/1e6, "peak-MB")
				})
			}
		})
	}
}

// BenchmarkRead10k reads the same reports. It measures how much memory reading allocates, and how
// much of that memory the report keeps.
func BenchmarkRead10k(b *testing.B) {
	for _, large := range fleettest.Large {
		b.Run(large.Name, func(b *testing.B) {
			var text bytes.Buffer
			if err := report.JSON(&text, checks.Report{Schema: checks.Schema, Fleet: large.Of(10_000).Fleet}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			runtime.GC()
			before, began := held(), fleettest.CPUSeconds()
			var read checks.Report
			for b.Loop() {
				var err error
				if read, err = report.Read(bytes.NewReader(text.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((fleettest.CPUSeconds()-began)/float64(b.N), "cpu-s/op")
			runtime.GC()
			b.ReportMetric(float64(held()-before)/1e6, "kept-MB")
			runtime.KeepAlive(read)
			runtime.KeepAlive(text)
		})
	}
}
