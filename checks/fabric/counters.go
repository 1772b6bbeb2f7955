// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
)

var Counters = checks.Check{
	ID:       "link-counters",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNet},
	Run: func(view checks.View) (findings []checks.Finding) {
		counting := compare.Without(view.Nodes, func(n *facts.Node) bool { return n.Net.Counters == nil })
		if len(view.Nodes) > 0 && len(counting) == 0 {
			return checks.Skipped("no node reported the counters of its links")
		}
		for _, node := range view.Nodes {
			if node.Net.Counters == nil {
				findings = append(findings, checks.UnknownFor(node, "net: the counters of the links were not reported"))
				continue
			}
			moving := movedCounters(node)
			findings = append(findings, checks.OfNode(node, ofCounters(moving, checks.Finding{
				Summary: "links counted errors during this run",
				Want:    "no new errors during the run",
			})...)...)
			high := compare.Without(highCounters(node), func(text string) bool { return slices.ContainsFunc(moving, sameCounter(text)) })
			findings = append(findings, checks.OfNode(node, ofCounters(high, checks.Finding{
				Summary: "links have counted many errors",
				Want:    "hardly any errors, and none in the next hour",
			})...)...)
		}
		return findings
	},
}

func ofCounters(counters []string, f checks.Finding) []checks.Finding {
	if len(counters) == 0 {
		return nil
	}
	const most = 6
	f.Got = strings.Join(counters[:min(most, len(counters))], "; ")
	if len(counters) > most {
		f.Got += fmt.Sprintf("; and %d more", len(counters)-most)
	}
	f.Remedy = []fix.Command{
		fix.On("grep -H . /sys/class/infiniband/*/ports/*/counters/* /sys/class/net/*/carrier_changes /sys/bus/pci/devices/*/aer_dev_*fatal 2>/dev/null | grep -v ':0$'   # run it again in an hour, to see which go up").As(fix.Look),
		fix.On("sudo dmesg -T | grep -iE 'aer|link (is )?(up|down)|mlx5' | tail -20").As(fix.Look),
		fix.Note("check cable, module and slot of the links that still count errors"),
	}
	return []checks.Finding{f}
}

// movedCounters returns the counters that increased between their first reading and the end of the
// connection tests. Each text begins with the name of the counter.
func movedCounters(node *facts.Node) (moved []string) {
	if node.Mesh == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(node.Mesh.Counters)) {
		if more := node.Mesh.Counters[name] - node.Net.Counters[name]; more > 0 {
			moved = append(moved, fmt.Sprintf("%s went up by %d to %d", name, more, node.Mesh.Counters[name]))
		}
	}
	return moved
}

// many holds the limits for each counter: a number per day of uptime, and a minimum. These limits
// are preflight's own. link_downed has 8 bits and stays at 255 (Linux 6.8,
// Documentation/ABI/stable/sysfs-class-infiniband).
var many = map[string]struct{ perDay, least float64 }{
	"symbol_error":          {100, 1000},
	"port_rcv_errors":       {100, 1000},
	"link_error_recovery":   {2, 10},
	"link_downed":           {2, 10},
	"carrier_changes":       {6, 30},
	"rx_crc_errors":         {100, 1000},
	"local_ack_timeout_err": {1000, 10000},
	"rnr_nak_retry_err":     {1000, 10000},
	"rx_icrc_encapsulated":  {100, 1000},
	"aer_fatal":             {0, 1},
	"aer_nonfatal":          {1, 1},

	"local_link_integrity_errors": {10, 100},
}

// highCounters returns the counters that are too high for the uptime of the machine. An unknown
// uptime counts as one day.
func highCounters(node *facts.Node) (high []string) {
	days := 1.0
	if node.Host != nil {
		days = max(1, cmp.Or(node.Host.Uptime, 86400)/86400)
	}
	for _, name := range slices.Sorted(maps.Keys(node.Net.Counters)) {
		_, what, _ := strings.Cut(name, " ")
		limit, known := many[what]
		count := node.Net.Counters[name]
		if known && (float64(count) >= max(limit.least, limit.perDay*days) || what == "link_downed" && count >= 255) {
			high = append(high, fmt.Sprintf("%s %d", name, count))
		}
	}
	return high
}

// sameCounter returns a function that reports whether a text is about the same counter as the text
// other.
func sameCounter(other string) func(string) bool {
	name := func(text string) string {
		words := strings.Fields(text)
		return strings.Join(words[:min(2, len(words))], " ")
	}
	return func(text string) bool { return name(text) == name(other) }
}
