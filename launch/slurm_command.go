package launch

import (
	"slices"
	"strconv"
	"strings"
)

// slurmCommand has srun start the script, with the whole environment and the
// exports over it. Which nodes run is srun's choice unless a filter has named
// them, which before v0.19.7 it did in DeepSpeed's grammar and with an option that
// srun does not have. --module and --no_python are forgotten.
//
// Source: deepspeed/launcher/multinode_runner.py, SlurmRunner.get_cmd, v0.7.4 to
// 0.19.8.
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
		argv = append(argv, "--nodelist", strings.Join(hostNames(r.active), ","), "--nodes", strconv.Itoa(len(r.active)))
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
