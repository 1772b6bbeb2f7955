// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPassing(t *testing.T) {
	for name, c := range map[string]struct {
		nic  Interface
		want bool
	}{
		"part of a bridge":       {Interface{Name: "veth1a2b", Kind: "veth", Master: "docker0"}, true},
		"routed, as Calico's":    {Interface{Name: "cali9", Kind: "veth", Addresses: []string{"fe80::1/64"}}, true},
		"eth0 of a container":    {Interface{Name: "eth0", Kind: "veth", Addresses: []string{"10.0.0.2/16"}}, false},
		"an adapter of a bridge": {Interface{Name: "eth1", Kind: "physical", Master: "br0"}, false},
		"an adapter, no address": {Interface{Name: "eth2", Kind: "physical"}, false},
	} {
		if got := c.nic.Passing(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestInternal(t *testing.T) {
	for name, c := range map[string]struct {
		nic  Interface
		want bool
	}{
		"loopback":            {Interface{Name: "lo", Loopback: true}, true},
		"a bridge":            {Interface{Name: "br0", Kind: "bridge"}, true},
		"Docker's":            {Interface{Name: "docker0", Kind: "docker"}, true},
		"a container's end":   {Interface{Name: "vx1", Kind: "veth", Master: "br0"}, true},
		"eth0 of a container": {Interface{Name: "eth0", Kind: "veth", Addresses: []string{"10.0.0.2/16"}}, false},
		"an adapter":          {Interface{Name: "eth1", Kind: "physical"}, false},
	} {
		if got := c.nic.Internal(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLastingContainers checks that the set of running containers does not change the lasting
// facts.
func TestLastingContainers(t *testing.T) {
	eth0 := Interface{Name: "eth0", Kind: "physical", Running: true, MAC: "02:00", Addresses: []string{"10.0.0.1/16", "fe80::1/64"}}
	bridge := Interface{Name: "docker0", Kind: "docker", MAC: "02:42", Addresses: []string{"172.17.0.1/16"}}
	idle := Facts{Net: &Net{Interfaces: []Interface{eth0, bridge}}}
	speed := int64(10e9)
	bridge.Index, bridge.Running, bridge.Speed, bridge.MAC = 7, true, &speed, "9a:71"
	bridge.Addresses = append(bridge.Addresses, "fe80::9871/64")
	busy := Facts{Net: &Net{Interfaces: []Interface{eth0, bridge, {Name: "veth1", Kind: "veth", Master: "docker0"}}}}
	texts := map[string]string{}
	for name, f := range map[string]Facts{"idle": idle, "busy": busy} {
		text, err := json.MarshalIndent(f.Lasting(), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	if diff := cmp.Diff(texts["idle"], texts["busy"]); diff != "" {
		t.Errorf("(-idle +busy):\n%s", diff)
	}
	for _, kept := range []string{"docker0", "172.17.0.1/16", "fe80::1/64", `"mac": "02:00"`} {
		if !strings.Contains(texts["idle"], kept) {
			t.Errorf("%s is not there", kept)
		}
	}
	if len(busy.Net.Interfaces) != 3 {
		t.Error("the facts themselves were changed")
	}
}
