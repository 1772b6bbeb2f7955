// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/fabric"
	"preflight/checks/gpu"
	"preflight/checks/host"
	"preflight/checks/network"
	"preflight/checks/software"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// under returns the findings of some checks under a policy, each in the form "verdict check nodes".
func under(fleet fleettest.Fleet, policy checks.Policy, catalogue ...checks.Check) (found []string) {
	for _, f := range engine.Evaluate(append(catalogue, agreement.Expectation), fleet.Fleet, fleet.Launch, policy).Findings {
		found = append(found, string(f.Verdict)+" "+f.Check+" "+strings.Join(f.Nodes, ","))
	}
	return found
}

// TestAStatementBeatsTheMajority checks that no node is blamed for differing from nodes that miss
// the policy.
func TestAStatementBeatsTheMajority(t *testing.T) {
	drivers := func(versions ...string) fleettest.Fleet {
		fleet := fleettest.Healthy(len(versions))
		for i, version := range versions {
			fleet.Nodes[i].NVML.Driver = version
		}
		return fleet
	}
	packages := func(name string, versions ...string) fleettest.Fleet {
		fleet := fleettest.Healthy(len(versions))
		for i, version := range versions {
			fleet.Nodes[i].Python.Packages[name] = version
		}
		return fleet
	}
	torch := fleettest.Healthy(3)
	torch.Nodes[0].Python.Torch.Version, torch.Nodes[1].Python.Torch.Version = "2.6.0", "2.6.0"
	mtu := fleettest.Healthy(3)
	for i := range 2 {
		mtu.Nodes[i].Net.Interfaces[1].MTU = 1500
	}
	firmware := fleettest.Healthy(3)
	for i := range firmware.Nodes {
		for j := range firmware.Nodes[i].IB.Devices {
			firmware.Nodes[i].IB.Devices[j].Firmware = []string{"28.38.1002", "28.38.1002", "28.39.1002"}[i]
		}
	}
	expects := func(fact, is string, nodes ...string) checks.Expectation {
		return checks.Expectation{Fact: fact, Is: []string{is}, Nodes: nodes}
	}
	warning := expects("python.packages.deepspeed", "==0.16.2")
	warning.Severity = checks.Warning
	for name, c := range map[string]struct {
		fleet  fleettest.Fleet
		expect []checks.Expectation
		check  checks.Check
		want   []string
	}{
		"no statement":                     {drivers("550", "550", "570"), nil, gpu.DriverSame, []string{"warn gpu-driver-same w3"}},
		"the majority misses it":           {drivers("550", "550", "570"), []checks.Expectation{expects("nvml.driver", ">=570")}, gpu.DriverSame, []string{"fail expectation w1,w2"}},
		"one misses it":                    {drivers("550", "570", "570"), []checks.Expectation{expects("nvml.driver", ">=570")}, gpu.DriverSame, []string{"fail expectation w1"}},
		"all meet it, and differ":          {drivers("570", "580", "580"), []checks.Expectation{expects("nvml.driver", ">=570")}, gpu.DriverSame, []string{"warn gpu-driver-same w1"}},
		"two groups, each as stated":       {drivers("570", "580", "580"), []checks.Expectation{expects("nvml.driver", "570", "w1"), expects("nvml.driver", "580", "w2", "w3")}, gpu.DriverSame, nil},
		"unlike, but none must be":         {drivers("550", "550", "570"), []checks.Expectation{expects("nvml.driver", ">=500", "w3")}, gpu.DriverSame, []string{"warn gpu-driver-same w3"}},
		"unlike, and one may be alike":     {drivers("550", "580", "580"), []checks.Expectation{expects("nvml.driver", ">=550", "w1"), expects("nvml.driver", ">=580", "w2", "w3")}, gpu.DriverSame, []string{"warn gpu-driver-same w1"}},
		"one is like a group, unstated":    {drivers("570", "580", "580"), []checks.Expectation{expects("nvml.driver", "570", "w1"), expects("nvml.driver", "580", "w2")}, gpu.DriverSame, nil},
		"one is like no group, unstated":   {drivers("570", "580", "590"), []checks.Expectation{expects("nvml.driver", "570", "w1"), expects("nvml.driver", "580", "w2")}, gpu.DriverSame, []string{"warn gpu-driver-same w1,w2,w3"}},
		"a group of one, the rest unsaid":  {drivers("570", "580", "580"), []checks.Expectation{expects("nvml.driver", "570", "w1")}, gpu.DriverSame, []string{"warn gpu-driver-same w1"}},
		"another spelling of a package":    {packages("numpy", "1.26.4", "1.26.4", "2.1.0"), []checks.Expectation{expects("python.packages.NumPy", "<2")}, software.PackagesSame, []string{"fail expectation w3"}},
		"another fact":                     {drivers("550", "550", "570"), []checks.Expectation{expects("nvml.library", "absent", "w9")}, gpu.DriverSame, []string{"warn gpu-driver-same w3"}},
		"torch":                            {torch, []checks.Expectation{expects("python.torch.version", "==2.5.1")}, software.TorchSame, []string{"fail expectation w1,w2"}},
		"python":                           {fleettest.Healthy(3), []checks.Expectation{expects("python.version", ">=3.99")}, software.PythonSame, []string{"fail expectation w1,w2,w3"}},
		"deepspeed":                        {packages("deepspeed", "0.15.1", "0.15.1", "0.16.2"), []checks.Expectation{expects("python.packages.deepspeed", "==0.16.2")}, software.DeepSpeedSame, []string{"fail expectation w1,w2"}},
		"a warning hides no failure":       {packages("deepspeed", "0.15.1", "0.15.1", "0.16.2"), []checks.Expectation{warning}, software.DeepSpeedSame, []string{"fail deepspeed-same w3", "warn expectation w1,w2"}},
		"one package of many":              {packages("numpy", "1.26.4", "1.26.4", "2.1.0"), []checks.Expectation{expects("python.packages.numpy", ">=2")}, software.PackagesSame, []string{"fail expectation w1,w2"}},
		"every package, by a star":         {packages("numpy", "1.26.4", "1.26.4", "2.1.0"), []checks.Expectation{expects("python.packages.num*", ">=2")}, software.PackagesSame, []string{"fail expectation w1,w2"}},
		"an MTU":                           {mtu, []checks.Expectation{expects("net.interfaces.eth*.mtu", "9000")}, network.PathMTU, []string{"fail expectation w1,w2"}},
		"an MTU by its short name":         {mtu, []checks.Expectation{expects("net.mtu", "9000")}, network.PathMTU, []string{"fail expectation w1,w2"}},
		"a driver by its short name":       {drivers("550", "550", "570"), []checks.Expectation{expects("gpu.driver", ">=570")}, gpu.DriverSame, []string{"fail expectation w1,w2"}},
		"firmware, unstated":               {firmware, nil, fabric.Same, []string{"warn ib-same w3"}},
		"firmware of adapters":             {firmware, []checks.Expectation{expects("ib.devices.*.firmware", ">=28.39")}, fabric.Same, []string{"fail expectation w1,w2"}},
		"of a node that is not there":      {drivers("550", "550", "550"), []checks.Expectation{expects("nvml.driver", "570", "w9")}, gpu.DriverSame, nil},
		"an alternative":                   {drivers("550", "550", "550"), []checks.Expectation{{Fact: "nvml.driver", Is: []string{"570", "==550"}}}, gpu.DriverSame, nil},
		"a driver that does not tell":      {drivers("", "550", "550"), []checks.Expectation{expects("nvml.driver", ">=500")}, host.ClockSkew, []string{"fail expectation w1"}},
		"an expectation that is no such":   {drivers("550"), []checks.Expectation{expects("no.such", "1")}, host.ClockSkew, []string{"unknown expectation "}},
		"every GPU, one entry after other": {fleettest.Healthy(2), []checks.Expectation{expects("nvml.cards.*.name", "absent", "w2")}, host.ClockSkew, []string{"fail expectation w2"}},
	} {
		if diff := cmp.Diff(c.want, under(c.fleet, checks.Policy{Expect: c.expect, ClockSkew: 2}, c.check)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	one := []checks.Expectation{expects("python.packages.protobuf", "<5")}
	odd := packages("protobuf", "4.25.3", "4.25.3", "5.29.1")
	waiver := checks.Waiver{Check: "expectation", Fact: "python.packages.protobuf", Nodes: []string{"w3"}, Until: "2026-12-31"}
	for name, c := range map[string]struct {
		policy checks.Policy
		want   []string
	}{
		"as it is":               {checks.Policy{Expect: one}, []string{"fail expectation w3"}},
		"weighed as a warning":   {checks.Policy{Expect: one, Severities: map[string]checks.Severity{"expectation": checks.Warning}}, []string{"fail protobuf-same w3", "warn expectation w3"}},
		"waived":                 {checks.Policy{Expect: one, Today: "2026-11-21", Waivers: []checks.Waiver{waiver}}, []string{"fail protobuf-same w3"}},
		"waived until yesterday": {checks.Policy{Expect: one, Today: "2027-01-01", Waivers: []checks.Waiver{waiver}}, []string{"fail expectation w3"}},
		"waived of another fact": {checks.Policy{Expect: one, Today: "2026-11-21", Waivers: []checks.Waiver{{Check: "expectation", Fact: "shm.size", Until: "2026-12-31"}}}, []string{"fail expectation w3"}},
	} {
		if diff := cmp.Diff(c.want, under(odd, c.policy, software.ProtobufSame)); diff != "" {
			t.Errorf("a miss %s (-want +got):\n%s", name, diff)
		}
	}
	off := checks.Policy{Expect: []checks.Expectation{expects("nvml.driver", ">=570")}, Skip: []string{"expectation"}}
	if got := under(drivers("550", "550", "570"), off, gpu.DriverSame); !slices.Equal(got, []string{"warn gpu-driver-same w3"}) {
		t.Errorf("an expectation that is switched off: %q", got)
	}
}

// TestAFailedDriverIsNoAbsentOne checks facts that a failed driver does not report. They must be
// unknown, and the failure must be reported once.
func TestAFailedDriverIsNoAbsentOne(t *testing.T) {
	fleet := fleettest.Healthy(2)
	fleet.Nodes[1].NVML = &facts.NVML{Source: "nvml", Asked: true, Failure: &facts.NVMLFailure{Kind: facts.FailureMismatch}}
	report := engine.Evaluate([]checks.Check{agreement.Expectation}, fleet.Fleet, fleet.Launch, checks.Policy{Expect: []checks.Expectation{{Fact: "nvml.driver", Is: []string{">=500"}}}})
	if outcome := report.Checks[0]; outcome.Verdict != checks.Unknown || !strings.Contains(outcome.Reason, "see gpu-driver-loads") || len(report.Findings) != 0 {
		t.Errorf("%+v, %s", outcome, fleettest.Spelled(report.Findings))
	}
}

// TestLinkLayersMeetThePolicy checks that no node is blamed for having another link layer than
// nodes that miss the policy.
func TestLinkLayersMeetThePolicy(t *testing.T) {
	fleet := fleettest.Healthy(3)
	for i := range fleet.Nodes[:2] {
		for d := range fleet.Nodes[i].IB.Devices {
			for p := range fleet.Nodes[i].IB.Devices[d].Ports {
				fleet.Nodes[i].IB.Devices[d].Ports[p].LinkLayer = "Ethernet"
			}
		}
	}
	policy := checks.Policy{Expect: []checks.Expectation{{Fact: "ib.devices.*.ports.*.link_layer", Is: []string{"InfiniBand"}}}}
	blames := func(policy checks.Policy) bool {
		report := engine.Evaluate([]checks.Check{fabric.Same, agreement.Expectation}, fleet.Fleet, fleet.Launch, policy)
		return slices.ContainsFunc(report.Findings, func(f checks.Finding) bool {
			return f.Check == fabric.Same.ID && strings.HasPrefix(f.Summary, "link layers") && slices.Contains(f.Nodes, "w3")
		})
	}
	if !blames(checks.Policy{}) || blames(policy) {
		t.Errorf("blamed without a policy: %v, with it: %v", blames(checks.Policy{}), blames(policy))
	}
}

// TestDraftsAreMet checks that a fleet of equal nodes meets the policy drafted from it. It also
// checks that the texts of hostile nodes state nothing but themselves.
func TestDraftsAreMet(t *testing.T) {
	fleet := fleettest.Healthy(3)
	for i := range fleet.Nodes {
		fleet.Nodes[i].Python.Packages[">=evil"] = ">=0"
		fleet.Nodes[i].Python.Packages["star*"] = "1"
		fleet.Nodes[i].Python.Packages["word"] = "absent"
	}
	fleet.Nodes[2].NVML.Driver = "1"
	var policy checks.Policy
	stated := map[string]string{}
	for _, d := range agreement.Drafts(fleet.Nodes) {
		stated[d.Fact] = d.Is
		if len(d.Groups) == 1 {
			policy.Expect = append(policy.Expect, checks.Expectation{Fact: d.Fact, Is: []string{d.Is}})
		}
	}
	for fact, want := range map[string]string{
		"gpu.driver": "550.54.15", "shm.size": ">=512GiB", "limits.memlock.soft": "unlimited", "net.mtu": "9000", "python.packages.>=evil": "", "python.packages.star*": "", "python.packages.word": "",
	} {
		if stated[fact] != want {
			t.Errorf("%s is drafted as %q, want %q", fact, stated[fact], want)
		}
	}
	if found := under(fleet, policy); found != nil || len(policy.Expect) < 10 {
		t.Errorf("%d expectations, missed by %q", len(policy.Expect), found)
	}
}
