// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

var NCCLSame = checks.Check{
	ID:       "nccl-same",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeNCCL,
}

func judgeNCCL(view checks.View) []checks.Finding {
	var nodes []*facts.Node
	for _, node := range ranks.Answering(view) {
		hidden := usesNCCL(node) && isShadowed(node.Python) && judgeLibrary(view, node) != nil
		if !hidden {
			nodes = append(nodes, node)
		}
	}
	if !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) > 0 }) {
		return noNCCL(view, nodes)
	}
	var findings []checks.Finding
	nodes = slices.DeleteFunc(nodes, func(n *facts.Node) bool {
		silent := len(n.Python.NCCL) > 0 && n.Python.NCCL[0].Version == ""
		if silent {
			findings = append(findings, checks.UnknownFor(n, n.Python.NCCL[0].Path+" does not report its version"))
		}
		return silent
	})
	nodes = compare.AsStated(view, nodes, "python.nccl.*.version")
	wanted := required{
		Name:    library(nodes),
		Version: nccl.Version,
		Install: func(pip fix.Pip, version string) fix.Command { return installNCCL(pip, nodes, version) },
		IsBare:  hasNCCLWheel,
		Lacking: "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
	}
	if wanted.Name == rccl {
		wanted.Lacking = "ImportError: librccl.so.1: cannot open shared object file: No such file or directory"
	}
	absent, unlike := wanted.findings(view, nodes)
	for _, f := range append(absent, unlike...) {
		if !ranks.UsesNCCL(view) && !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return slices.Contains(f.Nodes, n.Name) && len(n.Python.NCCL) == 0 }) {
			f.Verdict, f.WouldSee = checks.Warn, "nothing: with accelerator cpu, ranks load NCCL but do not use it"
		}
		findings = append(findings, f)
	}
	if versions := compare.GroupBy(nodes, nccl.Version); len(versions) != 1 || versions[0].Value == "" {
		return findings // different versions already explain different CUDA builds
	}
	built := func(n *facts.Node) string { return n.Python.NCCL[0].CUDA }
	name := "NCCL for CUDA"
	if wanted.Name == rccl {
		name, built = "RCCL for ROCm", func(n *facts.Node) string { return n.Python.NCCL[0].HIP }
	}
	return append(findings, compare.Findings("NCCL builds", compare.Differences(compare.Among(nodes, name, built)), checks.Finding{
		Verdict: checks.Warn, WouldSee: "usually nothing: NCCL compares only its own version", Remedy: []fix.Command{listed(view)},
	})...)
}

// rccl is the name of ROCm's library. It uses NCCL's version numbers.
const rccl = "RCCL"

// library returns the name of the library that ranks load: "NCCL" or "RCCL".
func library(nodes []*facts.Node) string {
	if slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) > 0 && n.Python.NCCL[0].HIP != "" }) {
		return rccl
	}
	return "NCCL"
}

// noNCCL returns the findings for a fleet without NCCL. The check fails if the ranks use GPUs and
// torch is known to need a separate NCCL library. That is known if torch came with CUDA libraries,
// or if it requires NCCL's wheel.
func noNCCL(view checks.View, nodes []*facts.Node) []checks.Finding {
	var lack []string
	for _, node := range nodes {
		if torch := node.Python.Torch; torch != nil && torch.CUDA != "" && (torch.NCCLWheel != "" || torch.CUDALibrary != "") {
			lack = append(lack, node.Name)
		}
	}
	switch {
	case view.Launch.Accelerator == "cpu":
		return checks.Skipped("accelerator cpu: NCCL is not used")
	case lack == nil:
		return ranks.Nowhere(view, "a libnccl of its own")
	}
	return []checks.Finding{{
		Nodes:    lack,
		Summary:  "torch is built for CUDA, but no node has an NCCL library for it",
		Want:     "the libnccl.so.2 that torch needs",
		WouldSee: "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory, or RuntimeError: Distributed package doesn't have NCCL built in",
		Remedy:   []fix.Command{remedy.Pip(view).Run("install --force-reinstall torch")},
	}}
}

// hasNCCLWheel reports whether pip considers a wheel of NCCL installed.
func hasNCCLWheel(node *facts.Node) bool {
	for name := range node.Python.Packages {
		if strings.HasPrefix(name, "nvidia-nccl") {
			return true
		}
	}
	return false
}

// installNCCL returns the command that installs the NCCL wheel of a version. The wheel is that of a
// node that has the version. If no node has such a wheel, the command lists the packages.
func installNCCL(pip fix.Pip, nodes []*facts.Node, version string) fix.Command {
	for _, node := range nodes {
		for _, name := range slices.Sorted(maps.Keys(node.Python.Packages)) {
			if strings.HasPrefix(name, "nvidia-nccl") && hostfile.Release(node.Python.Packages[name], 3) == hostfile.Release(version, 3) {
				return pip.Install([]fix.Requirement{{Name: name, Version: node.Python.Packages[name]}})[0]
			}
		}
	}
	return pip.List().As(fix.Look)
}

var NCCLLoaded = checks.Check{
	ID:       "nccl-loaded",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeLoadedNCCL,
}

func judgeLoadedNCCL(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if !slices.ContainsFunc(nodes, usesNCCL) {
		return ranks.Nowhere(view, "torch with a libnccl of its own")
	}
	alike := len(compare.GroupBy(nodes, nccl.Version)) == 1
	var findings []checks.Finding
	for _, node := range nodes {
		// nccl-same reports a wheel that differs on one node.
		if usesNCCL(node) && (alike || isShadowed(node.Python)) {
			findings = append(findings, judgeLibrary(view, node)...)
		}
	}
	return findings
}

func usesNCCL(n *facts.Node) bool { return n.Python.Torch != nil && len(n.Python.NCCL) > 0 }

// judgeLibrary compares the NCCL library that the loader finds first with the library that torch
// expects.
func judgeLibrary(view checks.View, node *facts.Node) []checks.Finding {
	python, first := node.Python, node.Python.NCCL[0]
	want := python.Torch.NCCLWheel
	if own := ownNCCL(python); want == "" && own >= 0 {
		want = python.NCCL[own].Version
	}
	if want == "" || first.Version == "" || hostfile.Release(first.Version, 3) == hostfile.Release(want, 3) {
		return nil
	}
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("torch loads %s %s, but was built for %s", library([]*facts.Node{node}), first.Version, want),
		Got:     fmt.Sprintf("%s from %s (%s)", first.Version, first.Path, first.From),
		Want:    want + ", the version that torch was built for",
		Remedy:  []fix.Command{remedy.Pip(view).Run("install --force-reinstall %s", fix.Package("torch=="+torchRelease(node)))},
	}
	if !hostfile.Before(first.Version, want) {
		f.Verdict = checks.Warn
		f.WouldSee = "Mismatched NCCL version detected, if the other nodes load another version"
	}
	if first.From == "LD_PRELOAD" || first.From == "LD_LIBRARY_PATH" {
		f.Remedy = []fix.Command{
			ranks.SearchSession(first.From).As(fix.Look),
			fix.Note("remove this library from %s, in the file that sets the variable", fix.Variable(first.From)),
		}
	}
	return []checks.Finding{f}
}

// isShadowed reports whether the library that the loader finds first is the wrong one: it did not
// come with torch, and torch does not require it.
func isShadowed(python *facts.Python) bool {
	own, asksForOne := ownNCCL(python), python.Torch != nil && python.Torch.NCCLWheel != ""
	return own > 0 || own < 0 && asksForOne && len(python.NCCL) > 0
}

// ownNCCL returns the index of the library that came with torch, or -1 if it was not found.
func ownNCCL(python *facts.Python) int {
	return slices.IndexFunc(python.NCCL, func(l facts.NCCLLibrary) bool { return l.From == "wheel" || l.From == "torch" })
}

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
