package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
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
	f.Remedy = append(f.Remedy, setForAll(r.fleet.view.Launch, name, r.fleet.ifnames())...) // taken out first, then set
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
	usable := nccl.Addressed(r.node.Net)
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
			f.Remedy = append(f.Remedy, setForAll(r.fleet.view.Launch, name, sharedName(r.fleet.view))...)
			findings = append(findings, f)
			break
		}
	}
	return findings
}

// outward leaves the loopback out: nobody means it.
func outward(net *facts.Net, interfaces []string) []string {
	return slices.DeleteFunc(slices.Clone(interfaces), func(name string) bool { return names.InterfaceOf(net, name).Loopback })
}

// setForAll sets interfaces for the whole fleet at once where a value is known
// to select the peers' network everywhere; else a person has to look.
func setForAll(p launch.Prediction, name, value string) []fix.Command {
	if value == "" {
		return []fix.Command{fix.On("ip -br addr")}
	}
	line := ranks.ExportLine(p, name, value)
	if strings.HasPrefix(value, "=") {
		line = line.Remark(exactMark)
	}
	return []fix.Command{line}
}
