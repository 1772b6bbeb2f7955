// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch/nccl"
)

// TakingRails returns the setting that makes NCCL use only the rails that answered. It returns the
// zero value if NCCL also uses a port that is not a rail, or uses different ports on different
// nodes.
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
