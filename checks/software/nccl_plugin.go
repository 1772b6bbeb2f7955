// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

var NCCLPlugin = checks.Check{
	ID:       "nccl-plugin",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionIB, facts.SectionNet, facts.SectionEnv},
	Volatile: true,
	Run:      judgeNCCLPlugin,
}

// cloudNetwork is a cloud provider's network that NCCL can use only with a plugin.
type cloudNetwork struct {
	name    string
	isOf    func(checks.View, *facts.Node) bool
	named   string // the part of the plugin's name after "libnccl-net-", "" if the plugin is libnccl-net.so
	install fix.Command
}

// googleNICs is the smallest number of NICs of a machine on which some NICs serve the GPUs. On an
// A3 High machine, four NICs serve the GPUs.
const googleNICs = 5

// cloudNetworks lists the networks. A network is recognised by its driver, because efa and gve
// belong to one cloud each, or by the variable that selects it. The first row that matches a node
// counts.
//
// Source: aws/aws-ofi-nccl 2daf7d30, README.md and RELEASENOTES.md 1.15.0 for the names of its
// library; google/nccl-plugin-gpudirecttcpx, README.md; Google Kubernetes Engine, "Maximize GPU
// network bandwidth with GPUDirect-TCPX and multi-networking". NCCL itself does not use EFA:
// NVIDIA/nccl 2.30.7, transport/net_ib/init.cc accepts ports of InfiniBand and Ethernet.
var cloudNetworks = []cloudNetwork{
	{
		"the Elastic Fabric Adapter", func(_ checks.View, node *facts.Node) bool { return isEFA(node) }, "ofi",
		fix.Note("install aws-ofi-nccl on {nodes} or in the container image, and add its directory to LD_LIBRARY_PATH: /opt/amazon/ofi-nccl/lib, in older releases /opt/amazon/aws-ofi-nccl/lib"),
	},
	{
		"GPUDirect-TCPX", func(_ checks.View, node *facts.Node) bool {
			count := 0
			for _, nic := range node.Net.Interfaces {
				if nic.Driver == "gve" {
					count++
				}
			}
			return count >= googleNICs
		}, "tcpx",
		fix.Note("install Google's plugin for this machine type on {nodes}, GPUDirect-TCPX or TCPXO, and add its directory to LD_LIBRARY_PATH"),
	},
	{
		"gIB", func(view checks.View, node *facts.Node) bool {
			return strings.EqualFold(ranks.Env(view, node).Get("NCCL_NET").Value, "gIB")
		}, "gib",
		fix.Note("install Google's nccl-gib on {nodes} or in the container image, add /usr/local/gib/lib64 to LD_LIBRARY_PATH, and source /usr/local/gib/scripts/set_nccl_env.sh in every shell"),
	},
	{
		"the network that NCCL_NET names", func(view checks.View, node *facts.Node) bool {
			asked := ranks.Env(view, node).Get("NCCL_NET").Value
			return asked != "" && !slices.ContainsFunc(ownNetworks, func(own string) bool { return strings.EqualFold(asked, own) })
		}, "",
		fix.Note("add the directory of the plugin for this network to LD_LIBRARY_PATH on {nodes}, or remove NCCL_NET"),
	},
}

// ownNetworks lists the networks that NCCL supports without a plugin, by their names in NCCL_NET.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/init.cc and transport/net_socket.cc.
var ownNetworks = []string{"IB", "Socket"}

func isEFA(node *facts.Node) bool {
	return slices.ContainsFunc(node.IB.Devices, func(adapter facts.HCA) bool { return adapter.Driver == "efa" })
}

func judgeNCCLPlugin(view checks.View) (findings []checks.Finding) {
	switch {
	case !ranks.UsesNCCL(view):
		return checks.Skipped("accelerator cpu: NCCL is not used")
	case len(view.All) < 2:
		return checks.Skipped("ranks of one node need no network")
	}
	judged := false
	for _, node := range view.Nodes {
		if at := slices.IndexFunc(cloudNetworks, func(network cloudNetwork) bool { return network.isOf(view, node) }); at >= 0 {
			judged = true
			findings = append(findings, checks.OfNode(node, withoutPlugin(view, node, cloudNetworks[at])...)...)
		}
	}
	if !judged {
		return checks.Skipped("no node has a network that NCCL needs a plugin for")
	}
	return findings
}

// withoutPlugin returns the findings for a node on which NCCL will not use a network that needs a
// plugin.
func withoutPlugin(view checks.View, node *facts.Node, network cloudNetwork) []checks.Finding {
	env, chosen := ranks.Env(view, node), ranks.NCCLNetwork(view, node)
	provider := env.Get("FI_PROVIDER")
	switch {
	case strings.EqualFold(env.Get("NCCL_NET").Value, "Socket"), env.Get("NCCL_NET_PLUGIN").Value == "none", len(chosen.Ports) > 0:
		return nil // this is intended, or NCCL uses adapters that it supports itself
	case node.IB.Libraries == nil:
		return []checks.Finding{checks.UnknownFor(node, "the NCCL plugins in the loader's path were not reported")}
	case chosen.Demanded:
		demand := env.Get("NCCL_NET")
		return []checks.Finding{{
			Verdict: checks.Fail, Summary: "NCCL_NET excludes both the plugin for " + network.name + " and TCP",
			Got: ranks.Origin(view, demand), Want: "no NCCL_NET", Remedy: ranks.TakeOut(view, demand),
			WouldSee: noNetwork,
		}}
	case chosen.Plugin != "" && isEFA(node) && leavesOutEFA(provider.Value):
		return []checks.Finding{{
			Summary: "FI_PROVIDER hides the Elastic Fabric Adapter from NCCL's plugin",
			Got:     ranks.Origin(view, provider), Want: "FI_PROVIDER with efa, or no FI_PROVIDER", Remedy: ranks.TakeOut(view, provider),
		}}
	case chosen.Plugin != "":
		return nil
	}
	f := checks.Finding{
		Summary: "NCCL finds no plugin for " + network.name + " and uses TCP",
		Got:     "no libnccl-net.so in the loader's path", Want: "libnccl-net.so in the loader's path",
		Remedy: []fix.Command{fix.On(`echo "$LD_LIBRARY_PATH"; find / -xdev -name 'libnccl-net*.so*' 2>/dev/null   # shows plugins in other directories`).Inside().As(fix.Look), network.install},
	}
	if asked := env.Get("NCCL_NET_PLUGIN"); asked.Value != "" {
		f.Got = "no such library in the loader's path: " + ranks.Origin(view, asked)
	}
	for _, library := range node.IB.Libraries {
		name, isPlugin := strings.CutPrefix(library.Name, "libnccl-net-")
		if isPlugin && strings.Contains(name, network.named) {
			f.Got += fmt.Sprintf("; %s exists but is not selected", library.Path)
			f.Remedy = []fix.Command{ranks.ExportLine(view.Launch, "NCCL_NET_PLUGIN", strings.TrimSuffix(name, ".so"))}
		}
	}
	if env.Get("NCCL_NET").Value != "" {
		f.Verdict, f.WouldSee = checks.Fail, noNetwork
		f.Summary = "NCCL finds no plugin for " + network.name + "; NCCL_NET excludes TCP"
	}
	return []checks.Finding{f}
}

const noNetwork = "NCCL WARN Failed to initialize any NET plugin"

// leavesOutEFA reports whether FI_PROVIDER excludes libfabric's provider of the EFA adapter. The
// value lists the providers that libfabric may use or, after "^", the providers that it may not
// use.
//
// Source: ofiwg/libfabric, src/fabric.c, ofi_create_filter and ofi_apply_filter; Amazon's plugin
// does not change FI_PROVIDER: aws/aws-ofi-nccl 2daf7d30, src/platform-aws.cpp.
func leavesOutEFA(providers string) bool {
	list, isExcluded := strings.CutPrefix(strings.ToLower(providers), "^")
	return providers != "" && slices.Contains(strings.Split(list, ","), "efa") == isExcluded
}
