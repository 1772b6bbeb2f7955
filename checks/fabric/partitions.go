// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

// partitionKey returns the partition key that NCCL uses: the key in slot 0, or in the slot that
// NCCL_IB_PKEY names. It returns "" if the slot is empty.
func partitionKey(view checks.View, node *facts.Node, port *facts.IBPort) string {
	slot, _ := nccl.Number(ranks.Env(view, node).Get("NCCL_IB_PKEY").Value)
	at := int(slot)
	if port.PKeySlots != nil {
		at = slices.Index(port.PKeySlots, int(slot))
	}
	if at < 0 || at >= len(port.PKeys) {
		return ""
	}
	return port.PKeys[at]
}

// partition returns a function that returns the partition of NCCL's key. The partition is the key
// without the bit for full membership.
func partition(view checks.View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		spelled := partitionKey(view, node, port)
		key, isNumber := nccl.Number(spelled)
		if !isNumber {
			return spelled
		}
		return fmt.Sprintf("0x%04x", key&^fullMember)
	}
}

// limitedMembers returns findings for ports that are limited members of their partition on several
// nodes. A limited member can only connect to full members.
func (p ports) limitedMembers(view checks.View) []checks.Finding {
	limited := map[*facts.Node][]string{}
	for _, name := range p.names {
		var those []*facts.Node
		for _, node := range p.nodes {
			port := p.on[name][node]
			if !isActive(port) || port.LinkLayer != "InfiniBand" {
				continue
			}
			if key, isNumber := nccl.Number(partitionKey(view, node, port)); isNumber && key&fullMember == 0 {
				those = append(those, node)
			}
		}
		if len(those) < 2 {
			continue
		}
		for _, node := range those {
			limited[node] = append(limited[node], name+" "+partitionKey(view, node, p.on[name][node]))
		}
	}
	return portFindings(p.nodes, limited, ", ", checks.Finding{
		Summary:  "ports are limited members of their partition and cannot connect to each other",
		Want:     "full membership, which sets the top bit of the key (0xffff, not 0x7fff)",
		WouldSee: "Got completion from peer … with status=12 (retry exceeded)",
		Remedy: []fix.Command{
			fix.On("grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000").As(fix.Look),
			fix.Note("grant full membership in the subnet manager's partitions.conf, or set NCCL_IB_PKEY to the slot of a full member's key"),
		},
	})
}
