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

// GoodHosts writes a hostfile of the nodes that are good ([checks.Report.Part]), in
// hostfile order, for deepspeed --hostfile; a comment names those that are unknown,
// which are in neither list. Where the launch as a whole fails no hosts would help, so
// there are none, and a comment says why. deepspeed refuses a hostfile without a host.
//
// A hostfile says how many slots a node has, not which. Where a filter has chosen others
// than the first ones, and the launch would use those it left out, the error says by which
// --include they are used. Where nobody said how many (-w, some Slurm jobs) a line is the
// name alone, which deepspeed refuses, and pdsh -w ^FILE and srun --nodefile take.
//
// The comments are left out for a DeepSpeed before v0.8.0, which knows none. Without them
// nobody can tell that the file is ours, and it is not written over. A name that
// cannot stand in a hostfile is an error.
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

// BadHosts writes the names of the nodes that are bad ([checks.Report.Part]), one a line
// below a comment, in hostfile order. What is wrong with the launch as a whole makes no
// node bad, for whoever drains the nodes of this list would drain the cluster because pdsh
// is not installed here.
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

// shareOf says how many are in a list of hosts, and the nodes that are in neither.
func shareOf(r checks.Report, listed []hostfile.Host, unknown []string) string {
	line := fmt.Sprintf("%d of %s", len(listed), text.Plural(len(r.Nodes), "node"))
	if len(unknown) > 0 {
		line += fmt.Sprintf("; %d unknown: %s", len(unknown), text.Escape(hostfile.Fold(unknown)))
	}
	return line
}

// hosts are some of the nodes with the slots that the launch was judged with.
func hosts(r checks.Report, names []string) ([]hostfile.Host, error) {
	for _, node := range r.Nodes { // those that are not listed stand in a comment
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

// isWord is whether a name can begin a line of a hostfile.
func isWord(name string) bool {
	return name != "" && name[0] != '#' && !strings.Contains(name, " ") && text.Escape(name) == name
}

// someSlots is whether a hostfile cannot say which slots of the host are used: they are
// not its first ones.
func someSlots(host hostfile.Host) bool {
	for i, slot := range host.Slots {
		if i != slot {
			return true
		}
	}
	return false
}

// included is what deepspeed --include takes to use these very slots.
func included(hosts []hostfile.Host) string {
	return strings.Join(text.Map(hosts, func(host hostfile.Host) string {
		if !someSlots(host) {
			return host.Name
		}
		return host.Name + ":" + strings.Join(text.Map(host.Slots, strconv.Itoa), ",")
	}), "@")
}
