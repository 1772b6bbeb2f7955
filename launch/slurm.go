// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// slurmCommand returns the command with which srun starts the script, with the whole environment
// overridden by the exports. srun chooses the nodes, unless the job has no others or a filter names
// them. Before v0.19.7 DeepSpeed passed the filter in its own syntax with an option that srun does
// not have. DeepSpeed drops --module and --no_python.
//
// Source: deepspeed/launcher/multinode_runner.py, SlurmRunner.get_cmd, v0.7.4 to 0.19.8.
func (r runner) slurmCommand() []string {
	argv := []string{"srun", "-n", strconv.Itoa(slotsOf(r.active))}
	perNode := "--gpus-per-node"
	if r.before("0.19.7") {
		argv, perNode = []string{"srun", "-n", r.total()}, "--gpus"
	}
	argv = append(argv, r.words...)
	if r.before("0.19.7") {
		if r.Filter.Include != "" {
			argv = append(argv, "--include", r.Filter.Include)
		}
		if r.Filter.Exclude != "" {
			argv = append(argv, "--exclude", r.Filter.Exclude)
		}
	} else if r.Filter.Include != "" || r.Filter.Exclude != "" {
		argv = append(argv, "--nodelist", strings.Join(HostNames(r.active), ","), "--nodes", strconv.Itoa(len(r.active)))
	}
	if r.Filter.NumNodes.N > 0 {
		argv = append(argv, "--nodes", strconv.Itoa(r.Filter.NumNodes.N))
	}
	if r.Filter.NumGPUs.N > 0 {
		argv = append(argv, perNode, strconv.Itoa(r.Filter.NumGPUs.N))
	}
	exports := "--export=ALL"
	for _, s := range r.exports {
		exports += "," + s.Name + "=" + s.Value
	}
	return slices.Concat(argv, []string{exports, r.python, "-u", r.Script}, r.arguments)
}

// slurmRefuses returns the errors of SlurmRunner.validate_active_resources.
func (r runner) slurmRefuses() error {
	if r.before("0.19.7") {
		return nil
	}
	counts := make([]string, len(r.active))
	for i, host := range r.active {
		counts[i] = fmt.Sprintf("%s: %d", hostfile.PythonRepr(host.Name), len(host.Slots))
		for j, slot := range host.Slots {
			if slot != j {
				return DeepSpeedRefuses(fmt.Sprintf("ValueError: slurm backend cannot select specific device ids, got [%s] on %s. Filter whole hosts, or keep the first N slots on every host.", joined(host.Slots), host.Name),
					"--launcher slurm cannot start ranks only on slots %s of %s: leave out whole hosts, or give every host its first slots with --num_gpus", joined(host.Slots), host.Name)
			}
		}
	}
	if !sameSlots(r.active) {
		return DeepSpeedRefuses(fmt.Sprintf("ValueError: slurm backend needs the same slot count on every host, got {%s}.", strings.Join(counts, ", ")),
			"--launcher slurm starts the same number of ranks on every host, but their slots differ: make them equal in the hostfile, or with --num_gpus")
	}
	return nil
}

func (r runner) slurmNotes() []hostfile.Note {
	filtered := r.Filter.Include != "" || r.Filter.Exclude != ""
	switch {
	case r.asksForAllSlots() && filtered:
		return []hostfile.Note{note("slurm-filter", "DeepSpeed before 0.19.7 passes the filter %q unchanged to srun, which has no --include and knows no slots, and asks for all slots of the hostfile: write a hostfile with the hosts that you want", cmp.Or(r.Filter.Include, r.Filter.Exclude))}
	case r.asksForAllSlots() && r.Filter.Given():
		return []hostfile.Note{note("slurm-filter", "DeepSpeed before 0.19.7 asks srun for all %s slots of the hostfile, and ignores --num_nodes and --num_gpus: write a hostfile with the hosts and slots that you want", r.total())}
	case !filtered && r.allocation() == nil:
		return []hostfile.Note{note("hostfile-ignored", "--launcher slurm uses only the total of slots from the hostfile; srun chooses the nodes, unless it runs in a job with exactly these nodes")}
	}
	return nil
}

// Allocated returns the nodes of the job in which the launch is typed, in the order in which they
// get ranks. It returns nil outside a job and for a launcher that has no jobs.
func (l Launcher) Allocated(head *facts.Env) []string {
	list, _ := Lookup(head, l.Allocation)
	nodes, err := hostfile.Expand(list)
	if l.Allocation == "" || list == "" || err != nil {
		return nil
	}
	return nodes
}

// IsNode reports whether a node of a job and a host of the hostfile have the same name. It ignores
// domains, because Slurm's node names usually have none.
func IsNode(node string, host hostfile.Host) bool {
	return undomained(node) == undomained(hostfile.Bare(host.Name))
}

func undomained(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return short
}

// allocation returns the active hosts in the order of the job's nodes if srun cannot choose among
// them, otherwise nil. A job step uses all nodes of its job (SLURM_JOB_NUM_NODES) unless the step
// names some of them.
//
// Source: srun(1), 22.05, INPUT ENVIRONMENT VARIABLES; tried with salloc.
func (r runner) allocation() (inOrder []hostfile.Host) {
	nodes := r.by.Allocated(r.env)
	named := !r.before("0.19.7") && (r.Filter.Include != "" || r.Filter.Exclude != "")
	for _, node := range nodes {
		if i := slices.IndexFunc(r.active, func(host hostfile.Host) bool { return IsNode(node, host) }); i >= 0 {
			inOrder = append(inOrder, r.active[i])
		}
	}
	if len(inOrder) != len(r.active) || !named && len(nodes) != len(r.active) {
		return nil
	}
	return inOrder
}
