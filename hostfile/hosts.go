// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseHosts parses the value of -w. It is a node set whose items may have a number of slots after
// a colon ("node[01-16],gpu7:4", "[fe80::1]:8"). Without a number, Slots is nil, because -w states
// only which nodes to check. An item with more than one colon outside brackets is an IPv6 address
// without slots.
//
// Items may overlap. As in pdsh 2.34 and ClusterShell 1.9, a host counts once, at its first place.
// If one host has two different numbers of slots, ParseHosts returns an error.
func ParseHosts(spec string) ([]Host, error) {
	items, err := splitSet(spec)
	if err != nil {
		return nil, err
	}
	var hosts []Host
	ranks := 0
	for _, item := range items {
		set, slots, err := splitSlots(item)
		if err != nil {
			return nil, err
		}
		names, err := Expand(set)
		if err != nil {
			return nil, err
		}
		if len(names)+len(hosts) > maxNames {
			return nil, fmt.Errorf("node set %q: %w", spec, errTooMany)
		}
		if slots > 0 {
			if slots > (maxRanks-ranks)/len(names) {
				return nil, fmt.Errorf("node set %q: more than %d ranks in total; check the number of slots", item, maxRanks)
			}
			ranks += slots * len(names)
		}
		for _, name := range names {
			if err := address(name); err != nil {
				return nil, err
			}
			host := Host{Name: name}
			if slots >= 0 {
				host.Slots = FirstSlots(slots)
			}
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("node set %q names no host", spec)
	}
	return union(hosts)
}

// union returns every host once, with the slots that any of its items gives.
func union(hosts []Host) (all []Host, err error) {
	at := make(map[string]int, len(hosts))
	for _, host := range hosts {
		i, seen := at[host.Name]
		switch {
		case !seen:
			at[host.Name] = len(all)
			all = append(all, host)
		case host.Slots == nil:
		case all[i].Slots == nil:
			all[i].Slots = host.Slots
		case len(all[i].Slots) != len(host.Slots):
			return nil, fmt.Errorf("host %q has %d slots in one place and %d in another: give one number", host.Name, len(all[i].Slots), len(host.Slots))
		}
	}
	return all, nil
}

// splitSlots splits ":N" off an item. slots is -1 if the item has none.
func splitSlots(item string) (set string, slots int, err error) {
	outside := strings.LastIndex(item, "]") + 1
	if strings.Count(bracketless(item), ":") != 1 || !strings.Contains(item[outside:], ":") {
		return item, -1, nil
	}
	colon := strings.LastIndex(item, ":")
	n, ok := setNumber(item[colon+1:])
	if !ok || n > maxRanks || colon == 0 {
		return "", 0, fmt.Errorf(`node set %q: after ":" comes a number of slots; a port belongs in ~/.ssh/config or --ssh_port`, item)
	}
	return item[:colon], int(n), nil
}

func bracketless(item string) string {
	var out strings.Builder
	for item != "" {
		literal, after, _ := strings.Cut(item, "[")
		out.WriteString(literal)
		_, item, _ = strings.Cut(after, "]")
	}
	return out.String()
}

// address returns an error for a name that has a colon and is not an IPv6 address.
func address(name string) error {
	_, after, found := strings.Cut(name, "@")
	if !found {
		after = name
	}
	if !strings.Contains(after, ":") || strings.HasPrefix(after, "[") {
		return nil
	}
	if _, err := netip.ParseAddr(after); err != nil {
		return fmt.Errorf("host %q has a colon, but is not an IPv6 address; write the number of slots last, such as gpu7:4", name)
	}
	return nil
}

func distinct(hosts []Host) ([]Host, error) {
	seen := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		if seen[host.Name] {
			return nil, fmt.Errorf("host %q is named twice; name it once", host.Name)
		}
		seen[host.Name] = true
	}
	return hosts, nil
}

// SlurmSlots returns the value that [FromSlurm] needs as perNode. That is the number of the job's
// GPUs on each node. If the ranks use the CPU or the job has no GPUs, it is the number of tasks. If
// the job requested a total number of GPUs, Slurm may spread them unevenly. SlurmSlots then uses
// the number of GPUs on this node only if that number times the number of nodes is the total.
//
// Source: salloc(1) and sbatch(1), 22.05, OUTPUT ENVIRONMENT VARIABLES, and jobs of that release.
// With --gpus-per-node, salloc and sbatch set SLURM_GPUS_PER_NODE. With --gres=gpu:N, which counts
// per node, they set only SLURM_GPUS_ON_NODE, on the node that runs the batch script.
func SlurmSlots(getenv func(name string) string, onCPU bool) string {
	if onCPU {
		return getenv("SLURM_TASKS_PER_NODE")
	}
	here, spread := getenv("SLURM_GPUS_ON_NODE"), getenv("SLURM_GPUS")
	if spread != "" {
		all, _ := setNumber(spread)
		each, _ := setNumber(here)
		nodes, _ := setNumber(getenv("SLURM_JOB_NUM_NODES"))
		if all != each*nodes {
			here = ""
		}
	}
	return cmp.Or(ofAllTypes(getenv("SLURM_GPUS_PER_NODE")), here, getenv("SLURM_TASKS_PER_NODE"))
}

// ofAllTypes returns the sum of the numbers in "a100:4,v100:4". It returns any other text
// unchanged.
func ofAllTypes(text string) string {
	total := int64(0)
	for one := range strings.SplitSeq(text, ",") {
		count, ok := setNumber(one[strings.LastIndex(one, ":")+1:])
		if !ok {
			return text
		}
		total += count
	}
	return strconv.FormatInt(total, 10)
}

// FromSlurm returns the hosts of an allocation, in the order of SLURM_NODEID (Slurm 22.05).
// nodelist is SLURM_JOB_NODELIST. perNode gives a count for each node in order, in the form of
// SLURM_TASKS_PER_NODE ("5,1(x3)") or of SLURM_GPUS_PER_NODE ("8" or "a100:8", for every node). The
// counts become slots. If perNode is "", Slots is nil.
func FromSlurm(nodelist, perNode string) ([]Host, error) {
	names, err := Expand(nodelist)
	if err != nil {
		return nil, fmt.Errorf("SLURM_JOB_NODELIST: %w", err)
	}
	counts, err := slurmCounts(perNode, len(names))
	if err != nil {
		return nil, err
	}
	hosts := make([]Host, len(names))
	for i, name := range names {
		hosts[i].Name = name
		if counts != nil {
			hosts[i].Slots = FirstSlots(counts[i])
		}
	}
	return distinct(hosts)
}

func slurmCounts(text string, nodes int) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	text = text[strings.LastIndex(text, ":")+1:] // removes the type of a generic resource
	var counts []int
	ranks := int64(0)
	for part := range strings.SplitSeq(text, ",") {
		countText, times, repeated := strings.Cut(part, "(x")
		repeat, repeatOK := int64(1), true
		if repeated {
			number, closed := strings.CutSuffix(times, ")")
			repeat, repeatOK = setNumber(number)
			repeatOK = repeatOK && closed && repeat > 0
		}
		count, countOK := setNumber(countText)
		if !countOK || !repeatOK {
			return nil, fmt.Errorf(`slots per node %q: %q is not a count like 8 or 8(x4)`, text, part)
		}
		if !repeated && part == text {
			repeat = int64(nodes)
		}
		if repeat > int64(nodes-len(counts)) {
			return nil, fmt.Errorf("slots per node %q counts more than the %d nodes of the node list", text, nodes)
		}
		if count > maxRanks || ranks+count*repeat > maxRanks {
			return nil, fmt.Errorf("slots per node %q makes more than %d ranks in total", text, maxRanks)
		}
		ranks += count * repeat
		counts = append(counts, slices.Repeat([]int{int(count)}, int(repeat))...)
	}
	if len(counts) < nodes {
		return nil, fmt.Errorf("slots per node %q counts %d of the %d nodes of the node list", text, len(counts), nodes)
	}
	return counts, nil
}
