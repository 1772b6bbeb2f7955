// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"testing"

	"preflight/checks"
)

func TestScope(t *testing.T) {
	for name, c := range map[string]struct{ covers, spares string }{
		"shm.size":                       {"shm.size", "shm.free"},
		"host.hostname":                  {"host.hostname", "host.kernel"},
		"hostname":                       {"host.hostname", "host.kernel"},
		"system":                         {"host.kernel", "host.hostname"},
		"driver":                         {"gpu.module", "nvml.cards.0.name"},
		"nvml.driver":                    {"gpu.module", "nvml.cards.0.name"}, // gpu.module repeats nvml.driver
		"gpu.driver":                     {"nvml.driver", "gpu.devices"},
		"python.packages":                {"python.packages.numpy", "python.version"},
		"python.packages.PyYAML":         {"python.packages.pyyaml", "python.packages.pyyaml-env"},
		"net.interfaces.eth0":            {"net.interfaces.eth0.mtu", "net.interfaces.eth01"},
		"net.interfaces.*.mtu":           {"net.interfaces.eth0.100.mtu", "net.interfaces.eth0"},
		"nvml.cards.[0-1,7].power.limit": {"nvml.cards.7.power.limit", "nvml.cards.2.power.limit"},
		"env.vars.NCCL_SOCKET_IFNAME":    {"env.nccl.NCCL_SOCKET_IFNAME.value", "env.vars.NCCL_IB_TC.value"},
		"nodes":                          {"", "host.os"},
		"*":                              {"", "nothing is spared"},
	} {
		scope, err := ReadScope(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !scope.Covers(checks.Change{Fact: c.covers}) {
			t.Errorf("%s does not cover %q", name, c.covers)
		}
		if name != "*" && scope.Covers(checks.Change{Fact: c.spares}) {
			t.Errorf("%s covers %q", name, c.spares)
		}
	}
	for name, want := range map[string]string{
		"shm.sise":      `there is no fact or topic "shm.sise": did you mean "shm.size"?`,
		"Host.hostname": `there is no fact or topic "Host.hostname": did you mean "host.hostname"?`,
		"hostnam":       `there is no fact or topic "hostnam": did you mean "hostname"?`,
		"drivers":       `there is no fact or topic "drivers": did you mean "driver"?`,
		"nvml.cards.[0": `"nvml.cards.[0": `,
	} {
		if _, err := ReadScope(name); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%s: %v, not %s", name, err, want)
		}
	}
}
