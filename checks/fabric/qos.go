// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

var QoS = checks.Check{
	ID:       "roce-qos",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Run: func(view checks.View) []checks.Finding {
		nodes, reason := ranks.UsingIB(view)
		if reason != "" {
			return checks.Skipped(reason)
		}
		return judgeQoS(view, portsOf(view, nodes))
	},
}

func isRoCE(port *facts.IBPort) bool { return isActive(port) && port.LinkLayer == "Ethernet" }

// trustOf and pausesOf return properties of a RoCE port for comparison, or "" if the node did not
// report them.
func trustOf(port *facts.IBPort) string {
	if port.QoS == nil {
		return ""
	}
	return port.QoS.Trust
}

func pausesOf(port *facts.IBPort) string {
	switch {
	case port.QoS == nil:
		return ""
	case len(port.QoS.Pauses) == 0:
		return "none"
	}
	return strings.Trim(fmt.Sprint(port.QoS.Pauses), "[]")
}

func judgeQoS(view checks.View, all ports) (findings []checks.Finding) {
	roce, reported := map[*facts.Node][]*facts.IBPort{}, false
	for _, name := range all.names {
		for _, node := range all.nodes {
			if port := all.on[name][node]; isRoCE(port) {
				roce[node] = append(roce[node], port)
				reported = reported || port.QoS != nil
			}
		}
	}
	if len(roce) == 0 {
		return checks.Skipped("no RoCE port is up on any node")
	}
	of := func(value func(*facts.IBPort) string) func(*facts.Node, *facts.IBPort) string {
		return func(_ *facts.Node, port *facts.IBPort) string {
			if !isRoCE(port) {
				return ""
			}
			return value(port)
		}
	}
	mtu := func(node *facts.Node, port *facts.IBPort) string {
		if held := names.InterfaceOf(node.Net, port.NetDev); isRoCE(port) && held.MTU != 0 {
			return strconv.Itoa(held.MTU)
		}
		return ""
	}
	for _, compared := range []struct {
		label, what string
		value       func(*facts.Node, *facts.IBPort) string
		command     fix.Command
	}{
		{" priority from", "the sources of RoCE priorities", of(trustOf), fix.On("dcb app show dev %s   # with dscp-prio entries: by DSCP; without: by VLAN", deviceOf(roce)).As(fix.Look)},
		{" paused priorities", "the paused priorities", of(pausesOf), fix.On("dcb pfc show dev %s   # on or off, by priority", deviceOf(roce)).As(fix.Look)},
		{" MTU", "the MTUs of RoCE interfaces", mtu, fix.On("ip link show").As(fix.Look)},
	} {
		differences := onBothSides(compare.Differences(all.compared(compared.label, compared.value)...))
		findings = append(findings, compare.Findings(compared.what, differences, checks.Finding{Remedy: []fix.Command{compared.command}})...)
	}
	for _, node := range all.nodes {
		silent := func(port *facts.IBPort) bool { return port.QoS == nil }
		if reported && slices.ContainsFunc(roce[node], silent) {
			findings = append(findings, checks.UnknownFor(node, "ib: the priorities and pauses of the RoCE ports were not reported"))
		}
		findings = append(findings, checks.OfNode(node, append(unlikeRails(roce[node]), classAside(view, node, roce[node])...)...)...)
	}
	if !reported && len(findings) == 0 {
		return checks.Skipped("no node's driver reports the priorities and pauses of its RoCE ports")
	}
	return findings
}

// deviceOf returns the network interface of one of the ports, to use as an example in a command.
func deviceOf(roce map[*facts.Node][]*facts.IBPort) fix.Name {
	least := ""
	for _, ports := range roce {
		for _, port := range ports {
			if least == "" || port.NetDev < least {
				least = port.NetDev
			}
		}
	}
	return fix.Name(least)
}

// unlikeRails warns about ports of one node that sort packets or pause priorities differently. NCCL
// uses the same traffic class for all ports.
func unlikeRails(roce []*facts.IBPort) []checks.Finding {
	var got []string
	values := map[string]bool{}
	for _, port := range roce {
		if port.QoS != nil {
			value := fmt.Sprintf("sorts by %s and pauses %s", port.QoS.Trust, pausesOf(port))
			got, values[value] = append(got, port.NetDev+" "+value), true
		}
	}
	if len(values) < 2 {
		return nil
	}
	return []checks.Finding{{
		Summary: "RoCE ports of the node sort or pause packets differently",
		Got:     strings.Join(got, "; "),
		Want:    "the same setting on all ports that NCCL uses, because NCCL_IB_TC applies to all",
		Remedy:  []fix.Command{fix.On("for i in /sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0; do dcb pfc show dev $(cat $i); dcb app show dev $(cat $i); done").As(fix.Look)},
	}}
}

// classAside warns about a traffic class whose priority has no PFC although other priorities of the
// port have it.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/connect.cc: NCCL_IB_TC is the traffic class of the
// packets; RFC 2474: its upper six bits are the DSCP.
func classAside(view checks.View, node *facts.Node, roce []*facts.IBPort) []checks.Finding {
	given := ranks.Env(view, node).Get("NCCL_IB_TC")
	class, isNumber := nccl.Number(given.Value)
	if !isNumber || class < 0 || class > 255 {
		return nil
	}
	var got []string
	for _, port := range roce {
		if port.QoS == nil || len(port.QoS.Pauses) == 0 {
			continue
		}
		code := class >> 2
		switch priority, known := port.QoS.Priorities[strconv.FormatInt(code, 10)]; {
		case port.QoS.Trust == facts.TrustPCP:
			got = append(got, fmt.Sprintf("%s sorts by the VLAN tag and pauses %s", port.NetDev, pausesOf(port)))
		case known && !slices.Contains(port.QoS.Pauses, priority):
			got = append(got, fmt.Sprintf("%s has DSCP %d in priority %d but pauses %s", port.NetDev, code, priority, pausesOf(port)))
		}
	}
	if got == nil {
		return nil
	}
	return []checks.Finding{{
		Summary: "NCCL's traffic class maps to a priority without PFC",
		Got:     ranks.Origin(view, given) + ": " + strings.Join(got, "; "),
		Want:    "a traffic class whose DSCP maps to a priority with PFC",
		Remedy: []fix.Command{
			fix.On("dcb app show dev %s; dcb pfc show dev %[1]s", fix.Name(roce[0].NetDev)).As(fix.Look),
			fix.Note("set NCCL_IB_TC to four times a DSCP that maps to a priority with PFC"),
		},
	}}
}
