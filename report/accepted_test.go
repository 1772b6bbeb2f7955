// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func recorded(t *testing.T, fleet fleettest.Fleet, render func(*bytes.Buffer, checks.Report) error) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := render(&text, engine.Evaluate(nil, fleet.Fleet, fleet.Launch, checks.Policy{})); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func normalizedTo(text *bytes.Buffer, r checks.Report) error { return Normalized(text, r) }

func wholeTo(text *bytes.Buffer, r checks.Report) error { return JSON(text, r) }

// changed returns two runs over a fleet with many changes between them.
func changed() (before, after fleettest.Fleet) {
	before, after = fleettest.Healthy(4), fleettest.Healthy(4)
	w2, w3 := &after.Nodes[1], &after.Nodes[2]
	w2.Host.Hostname, w2.Host.Kernel = "w2-old", "6.8.0"
	w2.Net.Interfaces[1].Name, w2.Net.TCP["net.ipv4.tcp_rmem"] = "enp4s0", "4096 1 2"
	w2.Python.Packages["apex"] = "0.1"
	delete(w2.Python.Packages, "numpy")
	w3.NVML.Cards = w3.NVML.Cards[:7]
	w3.Net.Interfaces[1].MTU, w3.SHM.Size = 9000, 1<<30
	w3.IB.Devices[1].Ports[0].Rate = 100e9
	w3.Env.Vars = append(w3.Env.Vars, facts.Setting{Name: "NCCL_IB_TC", Value: "106"})
	w3.Python.Torch = nil
	w3.Host.MachineID = "machine-other"
	return before, after
}

func differing(t *testing.T, text []byte, after fleettest.Fleet) []checks.Change {
	t.Helper()
	was, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return agreement.Changes(was.Fleet, after.Fleet)
}

// TestAcceptedAll checks that a baseline that takes every change equals a new baseline.
func TestAcceptedAll(t *testing.T) {
	before, after := changed()
	for name, render := range map[string]func(*bytes.Buffer, checks.Report) error{"normalized": normalizedTo, "whole": wholeTo} {
		was := recorded(t, before, render)
		later := engine.Evaluate(nil, after.Fleet, after.Launch, checks.Policy{})
		got, err := Accepted(was, later, differing(t, was, after))
		if err != nil {
			t.Fatal(err)
		}
		if left := differing(t, got, after); len(left) > 0 {
			t.Errorf("%s: left are %v", name, left)
		}
		if want := string(recorded(t, after, normalizedTo)); want != string(got) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, string(got)))
		}
	}
}

// TestAcceptedOne checks that Accepted takes one change and no other change, whatever the layout of
// the file.
func TestAcceptedOne(t *testing.T) {
	before, after := changed()
	before.Nodes, after.Nodes = before.Nodes[:3], append(after.Nodes[:0:0], after.Nodes[1:]...) // w1 is gone, w4 is new
	later := engine.Evaluate(nil, after.Fleet, after.Launch, checks.Policy{})
	tidy := recorded(t, before, normalizedTo)
	for name, was := range map[string][]byte{"as written": tidy, "laid out otherwise": bytes.ReplaceAll(tidy, []byte("\n "), []byte("\r\n\t "))} {
		all := differing(t, was, after)
		if len(all) < 15 {
			t.Fatalf("only %d changes", len(all))
		}
		for _, c := range all {
			got, err := Accepted(was, later, []checks.Change{c})
			if err != nil {
				t.Fatal(err)
			}
			rest := differing(t, got, after)
			for _, left := range rest {
				if cmp.Equal(left, c) {
					t.Errorf("%s: %s %s is left", name, c.Node, c.Fact)
				}
			}
			torch := strings.HasPrefix(c.Fact, "python.torch.") // torch's facts come and go together
			if n := len(rest); n != len(all)-1 && !torch {
				t.Errorf("%s: %s %s: %d changes are left of %d", name, c.Node, c.Fact, n, len(all))
			}
			if lines := changedLines(tidy, got); lines > 3 && c.Fact != "" && string(c.Before) != `"present"` && string(c.After) != `"present"` && !strings.HasPrefix(c.Fact, "env.") && !torch {
				t.Errorf("%s: %s %s: %d lines changed", name, c.Node, c.Fact, lines)
			}
		}
		if same, err := Accepted(was, later, nil); err != nil || !bytes.Equal(same, tidy) {
			t.Errorf("%s: nothing was to be accepted, and the text is another: %v", name, err)
		}
	}
}

// TestAcceptedKeepsUnrecorded checks that facts that an older release did not record get no value.
func TestAcceptedKeepsUnrecorded(t *testing.T) {
	fleet := fleettest.Healthy(1)
	for name, render := range map[string]func(*bytes.Buffer, checks.Report) error{"normalized": normalizedTo, "whole": wholeTo} {
		was := regexp.MustCompile(`"(libc|mtu)": [^\n]*,\n`).ReplaceAll(recorded(t, fleet, render), nil)
		got, err := Accepted(was, engine.Evaluate(nil, fleet.Fleet, fleet.Launch, checks.Policy{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Read(bytes.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		if w1 := &back.Nodes[0]; w1.Records("host.libc") || w1.Records("net.interfaces.eth0.mtu") || !w1.Records("host.kernel") {
			t.Errorf("%s: it does not record %v", name, w1.Unrecorded)
		}
	}
}

// changedLines returns the number of lines between the common beginning and the common end of two
// texts.
func changedLines(a, b []byte) int {
	one, other := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for len(one) > 0 && len(other) > 0 && one[0] == other[0] {
		one, other = one[1:], other[1:]
	}
	for len(one) > 0 && len(other) > 0 && one[len(one)-1] == other[len(other)-1] {
		one, other = one[:len(one)-1], other[:len(other)-1]
	}
	return max(len(one), len(other))
}
