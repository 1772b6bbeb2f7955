// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/launchtest"
)

// TestServesC10d follows pytorch/pytorch, _matches_machine_hostname of 1.13, 2.0, 2.4 and 2.15.
func TestServesC10d(t *testing.T) {
	debian := launchtest.Names("w1 127.0.1.1", "user@node1 10.0.0.1", "w1.cluster 127.0.1.1", "w2 10.0.0.2", "gone")
	full := launchtest.Names("w1 10.0.0.1 fd00::1", "node1 10.0.0.1", "w2 10.0.0.2")
	full.FQDN = "w1.cluster"
	for _, c := range []struct {
		name  string
		host  string
		names *facts.Names
		torch string
		want  bool
		why   string
	}{
		{"everybody's name", "localhost", debian, "", true, "every node treats localhost as its own address"},
		{"everybody's address", "127.0.0.1", nil, "", true, "every node treats 127.0.0.1 as its own address"},
		{"any loopback", "127.0.1.1", full, "", true, "every node treats 127.0.1.1 as its own address"},
		{"IPv6 loopback", "::1", full, "", true, "every node treats ::1 as its own address"},
		{"its hostname", "w1", debian, "", true, "its hostname w1 is the endpoint's"},
		{"its full name", "w1.cluster", full, "1.13.0", true, "the full name of its hostname w1 is the endpoint's"},
		{"its address", "10.0.0.1", full, "1.13.0", true, "its hostname w1 resolves to 10.0.0.1"},
		{"its IPv6 address, written otherwise", "fd00:0::1", full, "", true, "its hostname w1 resolves to fd00:0::1"},
		{"Debian's line hides its address", "10.0.0.1", debian, "", false, "no address of its hostname w1 (127.0.1.1) is 10.0.0.1"},
		{"another's address", "10.0.0.2", full, "", false, "no address of its hostname w1 (10.0.0.1, fd00::1) is 10.0.0.2"},
		{"another name for it", "node1", full, "2.0.0", true, "its hostname w1 and node1 both resolve to 10.0.0.1"},
		{"unknown torch is new", "node1", full, "", true, "its hostname w1 and node1 both resolve to 10.0.0.1"},
		{"another name, old torch", "node1", full, "1.13.1", false, "its hostname is w1, and torch before 2.0 does not compare what node1 resolves to"},
		{"both are Debian's line", "w1.cluster", debian, "2.4.1", true, "its hostname w1 and w1.cluster both resolve to 127.0.1.1"},
		{"a name of the hostfile with its user", "node1", debian, "", false, "no address of its hostname w1 (127.0.1.1) is node1 (10.0.0.1)"},
		{"another's name", "w2", full, "", false, "no address of its hostname w1 (10.0.0.1, fd00::1) is w2 (10.0.0.2)"},
		{"a name that does not resolve", "gone", debian, "", false, "its hostname is w1, and gone does not resolve on it"},
		{"a name nobody asked for", "w9", debian, "", false, "not known: what w9 resolves to on it was not seen"},
		{"its own name does not resolve", "10.0.0.1", launchtest.Names("w1"), "", false, "its own hostname w1 does not resolve, so torchrun fails (socket.gaierror)"},
		{"its own name got no answer", "10.0.0.1", &facts.Names{Own: "w1", Lookups: []facts.Lookup{{Name: "w1", Unanswered: true}}}, "", false,
			"not known: what its own hostname w1 resolves to was not seen"},
		{"names not seen", "w1", nil, "", false, "not known: how it resolves names was not seen"},
	} {
		node := launchtest.Node(nil, c.names)
		if c.torch != "" {
			node.Python = &facts.Python{Torch: &facts.Torch{Version: c.torch}}
		}
		// It does not matter which node is the first.
		serves, why := Prediction{Rendezvous: "c10d"}.Serves(Endpoint{Host: c.host}, node, &facts.Node{Name: "w0"})
		if serves != c.want || why != c.why {
			t.Errorf("%s: %v, %q; want %v, %q", c.name, serves, why, c.want, c.why)
		}
	}
}

func TestServes(t *testing.T) {
	first, other := &facts.Node{Name: "w1"}, &facts.Node{Name: "w2"}
	for _, mode := range []string{"", "deepspeed", "static"} {
		p := Prediction{Rendezvous: mode}
		if serves, why := p.Serves(Endpoint{Host: "w2"}, first, first); !serves || why != "it is node 0, which serves" {
			t.Errorf("%q, node 0: %v, %s", mode, serves, why)
		}
		if serves, why := p.Serves(Endpoint{Host: "w2"}, other, first); serves || why != "only node 0 serves" {
			t.Errorf("%q, another: %v, %s", mode, serves, why)
		}
	}
}

// TestNextMeeting follows pytorch/pytorch 2.15, dynamic_rendezvous.py, which sorts the
// participants.
func TestNextMeeting(t *testing.T) {
	named := func(name, fqdn string) *facts.Node {
		return &facts.Node{Name: name, Facts: facts.Facts{Names: &facts.Names{Own: name, FQDN: fqdn}}}
	}
	for _, c := range []struct {
		name  string
		nodes []*facts.Node
		want  [2]string
	}{
		{"the smallest full name, not the first node", []*facts.Node{named("w1", "w1.b"), named("w2", "a2.b")}, [2]string{"w2", "a2.b"}},
		{"by characters, not by numbers", []*facts.Node{named("w2", "w2"), named("w10", "w10")}, [2]string{"w10", "w10"}},
		{"capitals first", []*facts.Node{named("w1", "a"), named("w2", "B")}, [2]string{"w2", "B"}},
		{"the hostname where there is no other", []*facts.Node{named("w2", ""), named("w3", "x3")}, [2]string{"w2", "w2"}},
		{"names not seen", []*facts.Node{{Name: "a"}, named("w1", "w1")}, [2]string{"w1", "w1"}},
	} {
		host, fqdn := Prediction{}.SecondRendezvous(c.nodes)
		if diff := cmp.Diff(c.want, [2]string{host.Name, fqdn}); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
	if host, fqdn := (Prediction{}).SecondRendezvous([]*facts.Node{{Name: "a"}}); host != nil || fqdn != "" {
		t.Errorf("without names: %v, %q", host, fqdn)
	}
}

// TestGenerationOf follows pytorch/pytorch, pull requests 107607 (2.1.0), 129261 and 129985
// (2.5.0).
func TestGenerationOf(t *testing.T) {
	for torch, want := range map[string]facts.Generation{
		"1.13.0a0+gitunknown": facts.GenerationLegacy,
		"2.0.1":               facts.GenerationLegacy,
		"2.1.0":               facts.GenerationValidates,
		"2.4.1+cu121":         facts.GenerationValidates,
		"2.5.0":               facts.GenerationPings,
		"2.15.0+cu132":        facts.GenerationPings,
		"":                    facts.GenerationPings,
		"unknown":             facts.GenerationPings,
	} {
		if got := StoreGeneration(torch); got != want {
			t.Errorf("GenerationOf(%q) = %s, want %s", torch, got, want)
		}
	}
}

func TestMixed(t *testing.T) {
	const legacy, validates, pings = facts.GenerationLegacy, facts.GenerationValidates, facts.GenerationPings
	for _, c := range []struct {
		client, server facts.Generation
		want           string // text in the result, "" if there is no problem
	}{
		{legacy, legacy, ""},
		{legacy, validates, "Connection reset by peer"},
		{legacy, pings, "never answers"},
		{validates, legacy, "terabytes"},
		{validates, validates, ""},
		{validates, pings, ""},
		{pings, legacy, "terabytes"},
		{pings, validates, "ping"},
		{pings, pings, ""},
	} {
		got := StoreMismatch(c.client, c.server)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("client %s, server %s: %q, want %q", c.client, c.server, got, c.want)
		}
	}
}
