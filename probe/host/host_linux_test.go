// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// realOnly ignores facts that come from system calls on the machine that runs the test, or from the
// test's user.
var realOnly = cmp.Options{
	cmpopts.IgnoreFields(facts.Host{}, "Hostname", "Kernel", "Arch", "User", "Home", "Shell"),
	cmpopts.IgnoreFields(facts.CPU{}, "Usable"),
}

func TestHostOnMetal(t *testing.T) {
	want := &facts.Host{
		BootID:       "6b1e7a0c-58c2-4b8e-9a61-0d8f3c5a9e11",
		MachineID:    "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
		NetNamespace: "net:[4026531992]",
		OS:           "Red Hat Enterprise Linux 8.8 (Ootpa)",
		CPU:          facts.CPU{Model: "Intel(R) Xeon(R) Platinum 8480C", Sockets: 2, Online: 8, Quota: new(1.5)},
		NUMA:         []facts.NUMA{{ID: 0, CPUs: "0-1,4-5", Bytes: 263820284 << 10}, {ID: 1, CPUs: "2-3,6-7", Bytes: 263820284 << 10}},
		Tools:        []string{}, Firewalls: []string{}, Uptime: 86400.25,
		Load: new(3.5), UID: new(os.Getuid()),
	}
	got, err := CollectHost(t.Context(), probetest.Machine(t, "host-metal-cgroup1"))
	if diff := cmp.Diff(want, got, realOnly); diff != "" || err != nil {
		t.Errorf("error %v; host (-want +got):\n%s", err, diff)
	}
}

func TestHostInDocker(t *testing.T) {
	want := &facts.Host{
		BootID:    "11111111-2222-4333-8444-555555555555",
		OS:        "Ubuntu 22.04.4 LTS",
		CPU:       facts.CPU{Model: "implementer 0x41 part 0xd4f", Sockets: 1, Online: 4, Quota: new(2.5)},
		Container: "docker",
		Tools:     []string{}, Uptime: 5, UID: new(os.Getuid()),
	}
	got, err := CollectHost(t.Context(), probetest.Machine(t, "host-docker-cgroup2"))
	if diff := cmp.Diff(want, got, realOnly); diff != "" || err != nil {
		t.Errorf("error %v; host (-want +got):\n%s", err, diff)
	}
}

func TestHostWithoutProcIsNotLookedAt(t *testing.T) {
	got, err := CollectHost(t.Context(), machine.Options{Root: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "/proc is not mounted") {
		t.Errorf("an empty machine is told as %+v, error %v", got, err)
	}
}

func TestNUMANodesThatDiffer(t *testing.T) {
	want := []facts.NUMA{
		{ID: 0, CPUs: "0-31", Bytes: 131072000 << 10},
		{ID: 1, CPUs: "32-63"},
		{ID: 2, Bytes: 98304000 << 10},
		{ID: 10, Bytes: 1 << 20},
	}
	if diff := cmp.Diff(want, numaNodes(probetest.Machine(t, "host-numa-memoryless"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParsePrettyName(t *testing.T) {
	for text, want := range map[string]string{
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n": "Debian GNU/Linux 12 (bookworm)",
		"ID=x\nPRETTY_NAME='Rocky'":                        "Rocky",
		"PRETTY_NAME=Alpine":                               "Alpine",
		`PRETTY_NAME="a \"b\" \$c"`:                        `a "b" $c`,
		"NAME=x":                                           "",
		"":                                                 "",
	} {
		if got := parsePrettyName(text); got != want {
			t.Errorf("parsePrettyName(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestParseNodeTotal(t *testing.T) {
	for text, want := range map[string]int64{
		"Node 0 MemFree: 1 kB\nNode 0 MemTotal:    16 kB\n": 16384,
		"Node 1 MemTotal:              0 kB\n":              0,
		"Node 1 MemTotal: x kB\n":                           0,
		"":                                                  0,
	} {
		if got := parseNodeTotal(text); got != want {
			t.Errorf("parseNodeTotal(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestParseModel(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel name\t: AMD EPYC 9654\n":        "AMD EPYC 9654",
		"model name\t: first\n\nmodel name\t: second\n":        "first",
		"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n": "POWER9, altivec supported",
		"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n":         "implementer 0x41 part 0xd0c",
		"processor\t: 0\n": "",
		"":                 "",
	} {
		if got := parseModel(text); got != want {
			t.Errorf("parseModel(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{
		"0":            {0},
		"0-3":          {0, 1, 2, 3},
		"0-1,8,10-11":  {0, 1, 8, 10, 11},
		"":             nil,
		"a-b":          nil,
		"1-":           nil,
		"0-4000000000": nil,
		"-1":           nil,
	} {
		if diff := cmp.Diff(want, parseList(text)); diff != "" {
			t.Errorf("parseList(%q) (-want +got):\n%s", text, diff)
		}
	}
}
