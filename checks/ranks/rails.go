// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch/nccl"
)

// TakingRails is what has NCCL take those rails that answered and no others; the zero value where it takes a port
// besides that is no rail, or where what it takes is not alike on all nodes.
func TakingRails(view checks.View, answered []string) facts.Setting {
	first, sockets := []string(nil), false
	for i, node := range view.Nodes {
		var names []string
		for _, rail := range node.Rails.Rails {
			if rail.Layer == nccl.LayerInfiniBand {
				return facts.Setting{}
			}
			names, sockets = append(names, rail.Name), rail.Layer == ""
		}
		slices.Sort(names)
		if i == 0 {
			first = names
		}
		if ports := len(NCCLNetwork(view, node).Ports); !slices.Equal(first, names) || !sockets && ports != len(names) {
			return facts.Setting{}
		}
	}
	if len(answered) == 0 {
		return facts.Setting{}
	}
	setting := facts.Setting{Name: "NCCL_IB_HCA", Value: "=" + strings.Join(answered, ",")}
	if sockets {
		setting.Name = "NCCL_SOCKET_IFNAME"
	}
	return setting
}
