// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"testing"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/compare"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func BenchmarkComparable(b *testing.B) {
	fleet := fleettest.Healthy(100)
	for i := 0; b.Loop(); i++ {
		for _, section := range facts.Sections() {
			fleet.Nodes[i%100].EachComparable(section, func(string, string) {})
		}
	}
}

// BenchmarkEvaluate10k evaluates large fleets, each with a different fault. It reports the number
// of findings after folding.
func BenchmarkEvaluate10k(b *testing.B) {
	for _, large := range fleettest.Large {
		b.Run(large.Name, func(b *testing.B) {
			fleet := large.Of(10_000)
			b.ReportAllocs()
			var r checks.Report
			began := fleettest.CPUSeconds()
			for b.Loop() {
				r = judged(fleet, Catalogue...)
			}
			b.ReportMetric((fleettest.CPUSeconds()-began)/float64(b.N), "cpu-s/op") // CPU time, because other load on the machine does not affect it
			b.ReportMetric(float64(len(r.Findings)), "findings")
		})
	}
}

// BenchmarkDiff10k compares the nodes of the fleets of BenchmarkEvaluate10k.
func BenchmarkDiff10k(b *testing.B) {
	for _, large := range fleettest.Large {
		b.Run(large.Name, func(b *testing.B) {
			fleet := large.Of(10_000)
			b.ReportAllocs()
			for b.Loop() {
				compare.Diff(fleet.Nodes)
			}
		})
	}
}

// BenchmarkExpectations compares a large fleet with thirty expectations. One node in ten misses one
// of the expectations.
func BenchmarkExpectations(b *testing.B) {
	fleet := fleettest.Healthy(10_000)
	for i := 0; i < len(fleet.Nodes); i += 10 {
		fleet.Nodes[i].SHM.Size = 64 << 20
	}
	var policy checks.Policy
	for len(policy.Expect) < 30 {
		policy.Expect = append(policy.Expect,
			checks.Expectation{Fact: "gpu.driver", Is: []string{">=500"}}, checks.Expectation{Fact: "shm.size", Is: []string{">=1GiB"}}, checks.Expectation{Fact: "net.mtu", Is: []string{"9000"}},
			checks.Expectation{Fact: "python.packages.*", Is: []string{">=0"}}, checks.Expectation{Fact: "host.kernel", Is: []string{">=4"}})
	}
	b.ReportAllocs()
	for b.Loop() {
		engine.Evaluate([]checks.Check{agreement.Expectation}, fleet.Fleet, fleet.Launch, policy)
	}
}
