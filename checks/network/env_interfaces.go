package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// ncclInterfaces fails where NCCL_SOCKET_IFNAME selects nothing: NCCL then has
// no fallback.
func ncclInterfaces(r envOfRanks) []checks.Finding {
	if r.node.Net == nil {
		return nil
	}
	const name = "NCCL_SOCKET_IFNAME"
	spec := r.value(name)
	if spec == "" {
		return nil
	}
	var usable []string
	for _, choice := range nccl.Candidates(r.fleet.view.Launch, r.node) {
		usable = append(usable, choice.Interface)
	}
	selected, chosen := nccl.MatchIfname(spec, usable)
	switch {
	case !chosen:
		return []checks.Finding{r.finding(name, "NCCL takes NCCL_SOCKET_IFNAME shorter than two characters as not set")}
	case len(selected) > 0:
		return nil
	}
	f := r.finding(name, "NCCL_SOCKET_IFNAME selects no interface of this node")
	f.Verdict = checks.Fail
	f.Want = "one of " + strings.Join(outward(r.node.Net, usable), ", ")
	f.WouldSee = "Bootstrap : no socket interface found"
	f.Remedy = append(f.Remedy, ncclFix(r.fleet.view.Launch, r.fleet.ifnames(), name)...) // taken out first, then set
	return []checks.Finding{f}
}

// exactInterfaces fails where gloo or tensorpipe are given a name that is not
// an interface: they know neither prefixes nor marks.
// Source: facebookincubator/gloo, transport/tcp/device.cc; pytorch/tensorpipe,
// transport/uv/utility.cc.
func exactInterfaces(r envOfRanks) []checks.Finding {
	if r.node.Net == nil {
		return nil
	}
	usable := addressed(r.node.Net)
	var findings []checks.Finding
	for _, name := range []string{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
		if r.value(name) == "" {
			continue
		}
		for item := range strings.SplitSeq(r.value(name), ",") {
			if slices.Contains(usable, item) {
				continue
			}
			f := r.finding(name, fmt.Sprintf("%s names no interface of this node: %q", name, item))
			if strings.ContainsAny(item, "^=") {
				f.Summary = name + " has no ^ or =, those are NCCL's: it takes whole interface names"
			}
			f.Verdict = checks.Fail
			f.Want = "one of " + strings.Join(outward(r.node.Net, usable), ", ")
			f.WouldSee = "Unable to find address for: " + item
			f.Remedy = append(f.Remedy, exactFix(r.fleet.view, name)...)
			findings = append(findings, f)
			break
		}
	}
	return findings
}

// addressed is the interfaces that have an address.
func addressed(net *facts.Net) []string {
	var names []string
	for _, i := range net.Interfaces {
		if len(i.Addresses) > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// outward leaves the loopback out of names: nobody means it.
func outward(net *facts.Net, names []string) []string {
	isLoopback := func(name string) bool {
		return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name && i.Loopback })
	}
	return slices.DeleteFunc(slices.Clone(names), isLoopback)
}

// ncclFix sets NCCL's interfaces for the whole fleet at once where a list is
// known to select the peers' network everywhere; else a person has to look.
func ncclFix(p launch.Prediction, list, name string) []fix.Command {
	if list == "" {
		return []fix.Command{fix.On("ip -br addr")}
	}
	line := ranks.ExportLine(p, name, list)
	if strings.HasPrefix(list, "=") {
		line = line.Remark(exactMark)
	}
	return []fix.Command{line}
}

// exactFix is the like for gloo and tensorpipe, which want one whole name that
// is right everywhere.
func exactFix(view checks.View, name string) []fix.Command {
	return ncclFix(view.Launch, sharedName(view), name)
}
