// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/testhosts/reporttest"
)

// The fleet has three machines. Two are equal, with two GPUs and an adapter behind one switch. The
// third has other GPUs.
func TestInterconnect(t *testing.T) {
	for name, style := range map[string]Style{"fabric": {}, "fabric-verbose": {Verbose: true}} {
		var got bytes.Buffer
		if err := Text(&got, reporttest.Fabric(), style); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, name+".txt", got.Bytes())
	}
}

// TestInterconnectIsEscaped checks that a driver's text is escaped like all other text of nodes.
func TestInterconnectIsEscaped(t *testing.T) {
	const evil = "\x1b[2J\u202e"
	r := reporttest.Fabric()
	r.Nodes[0].NVML.Cards[0].Name, r.Nodes[0].NVML.Topology[0][1], r.Nodes[0].IB.Devices[0].Name = evil, evil, evil
	r.Interconnect[0].Between.Detail = evil
	var got bytes.Buffer
	if err := Text(&got, r, Style{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(got.String(), evil[:1]+"\u202e") {
		t.Errorf("a control character got through:\n%q", got.String())
	}
	if n := strings.Count(got.String(), `\x1b[2J`); n < 3 {
		t.Errorf("said %d times:\n%s", n, got.String())
	}
}

// TestManyKinds checks that a fleet of many different machines does not fill the page, and that -v
// lists all of them.
func TestManyKinds(t *testing.T) {
	r := reporttest.Fabric()
	r.Nodes = nil
	for i := range 9 {
		r.Nodes = append(r.Nodes, facts.Node{Name: fmt.Sprintf("w%d", i), Facts: facts.Facts{NVML: &facts.NVML{Cards: []facts.Card{{Name: fmt.Sprintf("model %d", i)}}}}})
	}
	for verbose, want := range map[bool]int{false: 0, true: 9} {
		var got bytes.Buffer
		if err := Text(&got, r, Style{Verbose: verbose}); err != nil {
			t.Fatal(err)
		}
		if kinds := strings.Count(got.String(), "model "); kinds != want {
			t.Errorf("verbose %t: %d kinds, want %d:\n%s", verbose, kinds, want, got.String())
		}
	}
}
