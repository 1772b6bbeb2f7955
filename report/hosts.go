package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/hostfile"
)

// How lists of hosts of ours begin; [Wrote] knows them by that.
const (
	goodHostsStart = "# good hosts, by preflight: "
	badHostsStart  = "# bad hosts, by preflight: "
)

// GoodHosts writes a hostfile of the nodes that nothing is wrong with, in hostfile
// order, for deepspeed --hostfile. A node is good when it was reached and no finding
// that failed names it, nor a warning where warnings fail the run. What is waived, and
// what could not be told of a node that was reached, does not make it bad: the exit code,
// 2, says that something could not. A failed finding that names no node, or the launching
// machine, is about the launch as a whole: no hosts would help, so there are none, and a
// comment says why. deepspeed refuses a hostfile without a host.
//
// Slots are those the launch was judged with. A hostfile can only say how many, so where
// a filter has chosen some it says as many as include them, and a comment holds the
// --include to go with it. Where nobody said how many (-w, some Slurm jobs) a line is the
// name alone, which deepspeed refuses, and pdsh -w ^FILE and srun --nodefile take.
//
// The comments are left out for a DeepSpeed before v0.8.0, which knows none; such a file
// is nobody's when it is to be written again. A name that cannot stand in a hostfile is
// an error.
func GoodHosts(w io.Writer, r checks.Report) error {
	good, _, err := parted(r)
	if err != nil {
		return err
	}
	whole := wholeLaunch(r)
	if whole != nil {
		good = nil
	}
	var out strings.Builder
	if !hostfile.Before(r.Launch.DeepSpeed, "0.8.0") {
		fmt.Fprintf(&out, "%s%d of %s\n", goodHostsStart, len(good), plural(len(r.Nodes), "node"))
		if whole != nil {
			fmt.Fprintf(&out, "# no hosts would help: the launch as a whole fails %s\n", Escape(strings.Join(whole, ", ")))
		}
		if slices.ContainsFunc(good, someSlots) {
			fmt.Fprintf(&out, "# not all their slots: launch with --include='%s'\n", included(good))
		}
	}
	for _, host := range good {
		out.WriteString(host.Name)
		if host.Slots != nil {
			most := -1
			for _, slot := range host.Slots {
				most = max(most, slot)
			}
			fmt.Fprintf(&out, " slots=%d", most+1)
		}
		out.WriteString("\n")
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// BadHosts writes the names of the nodes that something is wrong with, one a line below
// a comment, in hostfile order: those a failed finding names and those that were not
// reached. What is wrong with the launch as a whole makes no node bad, for whoever drains
// the nodes of this list would drain the cluster because pdsh is not installed here.
func BadHosts(w io.Writer, r checks.Report) error {
	_, bad, err := parted(r)
	if err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s%d of %s\n", badHostsStart, len(bad), plural(len(r.Nodes), "node"))
	for _, host := range bad {
		fmt.Fprintln(&out, host.Name)
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// counts is whether a finding is among the reasons why the run failed.
func counts(r checks.Report, f checks.Finding) bool {
	return f.Verdict == checks.Fail || f.Verdict == checks.Warn && warningsFail(r)
}

// wholeLaunch are the checks that failed and blame no node.
func wholeLaunch(r checks.Report) (failed []string) {
	for _, f := range r.Findings {
		noNode := len(f.Nodes) == 0 || r.Head != nil && slices.Equal(f.Nodes, []string{r.Head.Name})
		if noNode && counts(r, f) && !slices.Contains(failed, f.Check) {
			failed = append(failed, f.Check)
		}
	}
	return failed
}

// parted are the nodes that nothing is wrong with and the others.
func parted(r checks.Report) (good, bad []hostfile.Host, err error) {
	accused := map[string]bool{}
	for _, f := range r.Findings {
		bad := counts(r, f)
		for _, node := range f.Nodes {
			accused[node] = accused[node] || bad
		}
	}
	slots := map[string][]int{}
	for _, host := range r.Launch.Hosts {
		slots[host.Name] = host.Slots
	}
	for _, node := range r.Nodes {
		if !isWord(node.Name) {
			return nil, nil, fmt.Errorf("%q cannot stand in a list of hosts: name the node in one word", Escape(node.Name))
		}
		host := hostfile.Host{Name: node.Name, Slots: slots[node.Name]}
		if node.Reached && !accused[node.Name] {
			good = append(good, host)
		} else {
			bad = append(bad, host)
		}
	}
	return good, bad, nil
}

// isWord is whether a name can begin a line of a hostfile.
func isWord(name string) bool {
	return name != "" && name[0] != '#' && !strings.Contains(name, " ") && Escape(name) == name
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
	parts := make([]string, len(hosts))
	for i, host := range hosts {
		parts[i] = host.Name
		if !someSlots(host) {
			continue
		}
		var slots []string
		for _, slot := range host.Slots {
			slots = append(slots, strconv.Itoa(slot))
		}
		parts[i] += ":" + strings.Join(slots, ",")
	}
	return strings.Join(parts, "@")
}
