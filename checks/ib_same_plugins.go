package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// unlikePlugins finds libraries that NCCL loads by itself and that only some nodes
// have: a network plugin speaks its own protocol, and ranks that have a tuner choose
// other algorithms than those that have none. Where it is variables that differ,
// env-same says so.
// Source: NVIDIA/nccl 2.30, plugin/net.cc, ncclNetInit, and plugin/tuner.cc.
func unlikePlugins(view View) (findings []Finding) {
	if view.Launch.Accelerator == "cpu" || len(view.All) < 2 {
		return nil
	}
	for _, plugin := range []struct {
		what, variable string
		name           func(*facts.Node) string
	}{
		{"network plugins of NCCL", "NCCL_NET_PLUGIN", func(n *facts.Node) string { return ncclNetwork(view, n).Plugin }},
		{"tuner plugins of NCCL", "NCCL_TUNER_PLUGIN", func(n *facts.Node) string {
			if slices.ContainsFunc(n.IB.Libraries, func(l facts.RDMALibrary) bool { return l.Name == "libnccl-tuner.so" }) {
				return "libnccl-tuner.so"
			}
			return ""
		}},
	} {
		chosen := func(n *facts.Node) string {
			env := rankEnv(view, n)
			return env[plugin.variable].Value + " " + env["NCCL_NET"].Value
		}
		silent := func(n *facts.Node) bool { return n.IB.Libraries == nil }
		if slices.ContainsFunc(view.Nodes, silent) || commonName(view.Nodes, chosen) == "" {
			continue
		}
		for _, d := range compare(among(view.Nodes, "plugin", plugin.name)) {
			f := d.finding(plugin.what)
			f.WouldSee = "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10), or a hang at the first collective"
			f.Remedy = []fix.Command{
				exportLine(view.Launch, plugin.variable, "none").Remark("all ranks do without, or have it installed where it is not:"),
				fix.On(`echo "$LD_LIBRARY_PATH"; ldconfig -p | grep libnccl-`),
			}
			findings = append(findings, f)
		}
	}
	return findings
}
