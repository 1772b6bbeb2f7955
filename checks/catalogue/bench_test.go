package catalogue

import (
	"testing"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
)

func BenchmarkComparable(b *testing.B) {
	fleet := fleettest.Healthy(100)
	for i := 0; b.Loop(); i++ {
		fleet.Nodes[i%100].Comparable()
	}
}

// BenchmarkEvaluate judges a large fleet, alike and with one odd node in ten.
func BenchmarkEvaluate(b *testing.B) {
	const size = 10_000
	alike, odd := fleettest.Healthy(size), fleettest.Healthy(size)
	for i := range odd.Nodes {
		if i%10 == 0 {
			odd.Nodes[i].Python.Packages["numpy"] = "2.0.0"
			odd.Nodes[i].SHM.Size = 64 << 20
		}
	}
	for name, fleet := range map[string]fleettest.Fleet{"alike": alike, "odd": odd} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				judged(fleet, Catalogue...)
			}
		})
	}
}

// BenchmarkEvaluateDNSDown judges a fleet of which half resolves no name: what many nodes
// have in common is found once.
func BenchmarkEvaluateDNSDown(b *testing.B) {
	fleet := withoutDNS(10_000)
	b.ReportAllocs()
	for b.Loop() {
		judged(fleet, Catalogue...)
	}
}

// BenchmarkExpectations holds thirty expectations against a large fleet in which one
// node in ten misses one of them.
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
