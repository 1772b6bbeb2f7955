package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/report"
)

// readReport reads a saved run; - is standard input.
func readReport(path string) (checks.Report, error) {
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return checks.Report{}, noRun("%s cannot be read: %w", path, usage.Reason(err))
		}
		defer file.Close()
		in = file
	}
	r, err := report.Read(in)
	if _, unread := errors.AsType[*fs.PathError](err); unread { // as of a directory
		return r, noRun("%s cannot be read: %w", path, usage.Reason(err))
	}
	if err != nil {
		return r, noRun("%s: %w", path, err)
	}
	if len(r.Nodes) == 0 { // as predict, explain and diff print it
		return r, noRun("%s: it has no nodes, so it is not a saved run", path)
	}
	return r, nil
}

// noRun says why there is no saved run to read, and how one is made.
func noRun(format string, args ...any) error {
	return usage.WithHint(fmt.Errorf(format, args...), "preflight -H hostfile -o json=run.json writes one; preflight snapshot -H hostfile --normalize -o golden.json one to compare with")
}

// readOnce refuses two saved runs that are both to come from standard input.
func readOnce(one, other string) error {
	if one == "-" && other == "-" {
		return usage.WithHint(errors.New("standard input can only be read once, and - is given twice"), "name a file for one of them")
	}
	return nil
}

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
