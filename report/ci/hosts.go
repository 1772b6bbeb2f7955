// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/hostfile"
	"preflight/internal/text"
)

// GoodHosts writes a hostfile of the good nodes ([catalogue.PartitionOf]) in hostfile order, for
// deepspeed --hostfile. A comment names the nodes that are neither good nor bad. If a check fails
// for the whole launch, the file lists no hosts and a comment says why. deepspeed refuses a
// hostfile without a host.
//
// A hostfile says how many slots a node has, but not which slots. If a filter selected slots other
// than the first ones, a launch with the hostfile would use the wrong slots. In that case GoodHosts
// returns an error with the --include option that selects the right slots. If the number of slots
// is unknown (-w, some Slurm jobs), a line contains only the name. deepspeed refuses such a line,
// but pdsh -w ^FILE and srun --nodefile accept it.
//
// DeepSpeed before v0.8.0 does not support comments, so for these releases the file has none.
// Without comments preflight cannot recognize its own file, so preflight does not overwrite it.
// GoodHosts returns an error for a name that cannot be in a hostfile.
func GoodHosts(w io.Writer, r checks.Report) error {
	split := catalogue.PartitionOf(r)
	if split.Whole != nil {
		split.Good = nil
	}
	good, err := hosts(r, split.Good)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(good, someSlots) {
		return fmt.Errorf("a hostfile cannot say which slots of a node are used: launch with the hostfile that preflight read and --include='%s'", included(good))
	}
	var out strings.Builder
	if !hostfile.Before(r.Launch.DeepSpeed, "0.8.0") {
		fmt.Fprintln(&out, "# good hosts, by preflight: "+shareOf(r, good, split.Unknown))
		if split.Whole != nil {
			fmt.Fprintf(&out, "# no node can be used: %s fails for the whole launch\n", text.Escape(strings.Join(split.Whole, ", ")))
		}
	}
	for _, host := range good {
		out.WriteString(host.Name)
		if host.Slots != nil {
			fmt.Fprintf(&out, " slots=%d", len(host.Slots))
		}
		out.WriteString("\n")
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// BadHosts writes the names of the bad nodes ([catalogue.PartitionOf]) in hostfile order, one per
// line below a comment. A failure of the whole launch makes no node bad. Otherwise a script that
// drains the listed nodes would drain the whole cluster if the launching machine lacks pdsh.
func BadHosts(w io.Writer, r checks.Report) error {
	split := catalogue.PartitionOf(r)
	bad, err := hosts(r, split.Bad)
	if err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintln(&out, "# bad hosts, by preflight: "+shareOf(r, bad, split.Unknown))
	for _, host := range bad {
		fmt.Fprintln(&out, host.Name)
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// shareOf says how many nodes are listed, and which nodes are in neither list.
func shareOf(r checks.Report, listed []hostfile.Host, unknown []string) string {
	line := fmt.Sprintf("%d of %s", len(listed), text.Plural(len(r.Nodes), "node"))
	if len(unknown) > 0 {
		line += fmt.Sprintf("; %d unknown: %s", len(unknown), text.Escape(hostfile.Fold(unknown)))
	}
	return line
}

// hosts returns the nodes with the given names, with their slots in the launch that was checked.
func hosts(r checks.Report, names []string) ([]hostfile.Host, error) {
	for _, node := range r.Nodes { // a comment names the nodes that are not listed
		if !isWord(node.Name) {
			return nil, fmt.Errorf("%q cannot be written to a list of hosts: its name must be one word", text.Escape(node.Name))
		}
	}
	slots := map[string][]int{}
	for _, host := range r.Launch.Hosts {
		slots[host.Name] = host.Slots
	}
	return text.Map(names, func(name string) hostfile.Host { return hostfile.Host{Name: name, Slots: slots[name]} }), nil
}

// isWord reports whether a name can begin a line of a hostfile.
func isWord(name string) bool {
	return name != "" && name[0] != '#' && !strings.Contains(name, " ") && text.Escape(name) == name
}

// someSlots reports whether a host uses slots other than its first ones. A hostfile cannot express
// this.
func someSlots(host hostfile.Host) bool {
	for i, slot := range host.Slots {
		if i != slot {
			return true
		}
	}
	return false
}

// included returns the value of deepspeed --include that selects exactly these slots.
func included(hosts []hostfile.Host) string {
	return strings.Join(text.Map(hosts, func(host hostfile.Host) string {
		if !someSlots(host) {
			return host.Name
		}
		return host.Name + ":" + strings.Join(text.Map(host.Slots, strconv.Itoa), ",")
	}), "@")
}
