// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestAlikeIsKeptOnce checks that equal bytes from several nodes become one shared value. Different
// bytes must become different values.
func TestAlikeIsKeptOnce(t *testing.T) {
	net := func(address string) string {
		return fmt.Sprintf(`{"seen":{"net":{"interfaces":[{"name":"eth0","mtu":9000,"kind":"physical","addresses":[%q]},{"name":"lo"},{"name":"ib0","addresses":["10.1.0.1/16"]}]}}}`, address)
	}
	told, nodes := &alike{}, make([]facts.Node, 3)
	for i := range nodes {
		nodes[i].Missing = map[facts.Section]string{}
		told.store(&nodes[i], facts.SectionSHM, json.RawMessage(`{"seen":{"shm":{"exists":true,"fstype":"tmpfs"}}}`))
		told.store(&nodes[i], facts.SectionNet, json.RawMessage(net(fmt.Sprintf("10.0.0.%d/16", i))))
	}
	if nodes[0].SHM == nil || nodes[0].SHM != nodes[1].SHM || nodes[1].SHM != nodes[2].SHM {
		t.Error("the same bytes are not one value")
	}
	for i, node := range nodes {
		var want facts.Facts
		want.SHM = &facts.SHM{Exists: true, FSType: "tmpfs"}
		want.Net = &facts.Net{Interfaces: []facts.Interface{{Name: "eth0", MTU: 9000, Kind: "physical", Addresses: []string{fmt.Sprintf("10.0.0.%d/16", i)}}, {Name: "lo"}, {Name: "ib0", Addresses: []string{"10.1.0.1/16"}}}}
		if diff := cmp.Diff(want, node.Facts); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", i, diff)
		}
	}
}
