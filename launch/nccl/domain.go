// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// nvlinkDomains describes the groups of nodes whose GPUs are connected by NVLink, as in NVIDIA's
// racks of 72.
type nvlinkDomains struct {
	nodes map[string]int // number of nodes by domain; nil if NVLink connects no GPUs of different nodes
	seen  int            // nodes whose domain is known
	// altered means that a variable makes NCCL use other domains than those that the driver
	// reports.
	altered bool
}

// findDomains returns the NVLink domains that NCCL will use. NCCL uses domains since 2.21, unless
// NCCL_MNNVL_ENABLE is 0, and only if every GPU of the launch belongs to a named fabric. A node
// that reports nothing is assumed to be like the others. A machine that is its own fabric, such as
// one with eight GPUs, has no fabric name.
//
// Source: NVIDIA/nccl 2.30.7, mnnvl.cc, ncclMnnvlCheck; init.cc, initTransportsRank and fillInfo;
// 2.21 to 2.24, init.cc, checkMNNVL.
func (t Transports) findDomains(nodes []facts.Node) nvlinkDomains {
	found := nvlinkDomains{nodes: map[string]int{}}
	for i := range nodes {
		node := &nodes[i]
		if node.NVML == nil || node.NVML.Failure != nil || len(t.gpusUsed(node)) == 0 {
			continue
		}
		domain := t.domainOf(node)
		if domain == "" || !t.leavesNode(node) {
			return nvlinkDomains{}
		}
		found.seen++
		found.nodes[domain]++
		env := launch.RankEnv(node.Env, t.Exports)
		for _, name := range []string{"NCCL_MNNVL_UUID", "NCCL_MNNVL_CLIQUE_ID", "NCCL_MNNVL_CROSS_CLIQUE"} {
			found.altered = found.altered || env.Get(name).Value != ""
		}
	}
	return found
}

// domainOf returns the domain (cluster and clique) of all GPUs that the launch uses on a node. It
// returns "" if the GPUs are in no domain or in several.
func (t Transports) domainOf(node *facts.Node) string {
	domain := ""
	for _, place := range t.gpusUsed(node) {
		fabric := node.NVML.Cards[place].Fabric
		if fabric == nil || fabric.State != "completed" || fabric.Cluster == "" {
			return ""
		}
		own := fmt.Sprintf("%s/%d", fabric.Cluster, fabric.Clique)
		if domain != "" && domain != own {
			return ""
		}
		domain = own
	}
	return domain
}

func (t Transports) leavesNode(node *facts.Node) bool {
	env := launch.RankEnv(node.Env, t.Exports)
	farthest, _ := peerLevel(node, env, len(node.NVML.Cards))
	return !hostfile.Before(Version(node), "2.21") && !isZero(env.Get("NCCL_MNNVL_ENABLE")) && !isZero(env.Get("NCCL_CUMEM_ENABLE")) && farthest >= slices.Index(pathTypes, "NVL")
}

// Domain returns the NVLink domain over which NCCL shares memory between the ranks of a node and
// those of other nodes. It returns "" if there is no domain, or if a variable makes NCCL use
// another domain than the driver reports.
func (t Transports) Domain(node *facts.Node) string {
	if len(t.Hosts) < 2 || t.Accelerator == "cpu" || t.domains.altered || t.domains.nodes == nil || node.NVML == nil || node.NVML.Failure != nil {
		return ""
	}
	return t.domainOf(node)
}

func (t Transports) acrossDomain(node *facts.Node, network Transport) Transport {
	if node.NVML == nil || node.NVML.Failure != nil || t.domains.nodes == nil {
		return network
	}
	nvlink := Transport{Name: "NVLink", Detail: "between all nodes", Why: "the GPUs are in the same cluster and clique; whether IMEX connects them was not tested"}
	joined := t.domains.nodes[t.domainOf(node)]
	switch {
	case joined < 2:
		return network
	case joined == t.domains.seen:
		return nvlink
	}
	nvlink.Detail = fmt.Sprintf("in domains of %d nodes", joined)
	if network.Name != "" {
		nvlink.Detail += strings.TrimSuffix("; between them "+network.Name+", "+network.Detail, ", ")
		nvlink.Why = strings.TrimSuffix(nvlink.Why+"; "+network.Why, "; ")
	}
	return nvlink
}
