package launch

import (
	"strings"
	"testing"

	"preflight/facts"
)

// pytorch/pytorch, pull requests 107607 (2.1.0), 129261 and 129985 (2.5.0).
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
		if got := GenerationOf(torch); got != want {
			t.Errorf("GenerationOf(%q) = %s, want %s", torch, got, want)
		}
	}
}

func TestMixed(t *testing.T) {
	const legacy, validates, pings = facts.GenerationLegacy, facts.GenerationValidates, facts.GenerationPings
	for _, c := range []struct {
		client, server facts.Generation
		want           string // a part of it, "" for no trouble
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
		got := Mixed(c.client, c.server)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("client %s, server %s: %q, want %q", c.client, c.server, got, c.want)
		}
	}
}
