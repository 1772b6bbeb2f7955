// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// rulesLimit is the time limit for iptables-save. kube-proxy may have made ten thousands of rules.
	rulesLimit = 2 * time.Second
	maxRules   = 64
)

var (
	// notable matches rules that redirect or end packets, or that limit the number or the rate of
	// connections. It also matches rules of the kernel's chains that accept packets, because these
	// keep packets from the rules below them.
	notable = lazyregexp.New(` -j (REDIRECT|DNAT|TPROXY|DROP|REJECT)\b| -m (connlimit|hashlimit|limit|recent) |^-A (INPUT|OUTPUT) .*-j ACCEPT\b`)
	// dropsRest matches the line of a chain of the kernel that drops what none of its rules accepts.
	dropsRest = lazyregexp.New(`^:(INPUT|OUTPUT) DROP\b`)
	// ofServices matches chains of kube-proxy, CNI plugins and fail2ban, which apply only to the
	// addresses of services, containers and strangers.
	ofServices = lazyregexp.New(`^-A (KUBE|CNI|cali|f2b)-`)
)

// rules returns the rules of iptables that redirect, end or limit connections. It runs no program
// if the kernel neither tracks connections nor has tables of iptables or nftables, because then
// there are no rules, and the program would load modules.
func rules(ctx context.Context, o machine.Options) []string {
	isLoaded := func(path string) bool { return machine.Exists(o.At(path)) }
	if !slices.ContainsFunc([]string{"/proc/sys/net/netfilter/nf_conntrack_max", "/proc/net/ip_tables_names", "/sys/module/nf_tables"}, isLoaded) {
		return []string{}
	}
	for _, name := range []string{"iptables-save", "/usr/sbin/iptables-save", "/sbin/iptables-save"} {
		if program, err := exec.LookPath(name); err == nil {
			saved, _, err := hostsys.Child{Path: program, Limit: rulesLimit}.Run(ctx)
			if err != nil {
				return nil
			}
			return notableRules(saved)
		}
	}
	return nil
}

// notableRules returns the notable rules in the output of iptables-save, each with its table.
func notableRules(saved string) []string {
	found, table := []string{}, ""
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		if name, isTable := strings.CutPrefix(line, "*"); isTable {
			table = name
		}
		if dropsRest.MatchString(line) {
			found = append(found, table+" -P "+strings.Fields(line)[0][1:]+" DROP")
		}
		if strings.HasPrefix(line, "-A ") && notable.MatchString(line) && !ofServices.MatchString(line) && len(found) < maxRules {
			found = append(found, table+" "+line)
		}
	}
	return found
}
