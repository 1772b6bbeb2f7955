package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// baselineFlag adds the flag that says what the fleet once was.
func baselineFlag(flags *pflag.FlagSet) {
	flags.String("baseline", "", "a snapshot: what has changed since is reported by the check drift")
}

// baseline reads what drift compares with, nil where nobody named a file. Nodes that the
// hostfile still lists and this launch leaves out are not missed in it.
func (c Config) baseline(p launch.Prediction) (*checks.Baseline, error) {
	if c.Baseline == "" {
		return nil, nil
	}
	saved, err := readReport(c.Baseline)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.origin("baseline"), err)
	}
	baseline := &checks.Baseline{File: c.Baseline, Head: saved.Head, Nodes: saved.Nodes, NotTried: saved.NotTried}
	if p.HostsFile == "" {
		return baseline, nil
	}
	// The launch has read it already. In judge it may lie on another machine, where a
	// file of the same name would be another fleet's.
	listed, _, err := hostfile.ReadFile(p.HostsFile, p.DeepSpeed)
	if err != nil || slices.ContainsFunc(p.Hosts, func(host hostfile.Host) bool { return !hasHost(listed, host.Name) }) {
		baseline.Unlisted = true
		return baseline, nil
	}
	baseline.Nodes = slices.DeleteFunc(baseline.Nodes, func(node facts.Node) bool {
		return hasHost(listed, node.Name) && !hasHost(p.Hosts, node.Name)
	})
	return baseline, nil
}

func hasHost(hosts []hostfile.Host, name string) bool {
	return slices.ContainsFunc(hosts, func(host hostfile.Host) bool { return host.Name == name })
}
