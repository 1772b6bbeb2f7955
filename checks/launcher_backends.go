package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/hostfile"
)

// backends are the programs that DeepSpeed looks for, and what it then runs.
//
// Source: deepspeed/launcher/multinode_runner.py, backend_exists and get_cmd,
// 0.8.3 to 0.19.8.
var backends = map[string][]string{
	"openmpi": {"ompi_info", "mpirun"},
	"mpich":   {"mpirun"},
	"impi":    {"mpirun"},
	"mvapich": {"mpiname", "mpirun"},
	"slurm":   {"sinfo", "srun"},
}

func backendFindings(view View, name string) []Finding {
	for _, program := range backends[name] {
		if view.Head.Launcher.Backends[program] == "" { // the others come with it
			return []Finding{onHead(view, Finding{
				Summary:  fmt.Sprintf("launcher %s needs %s, which is not in PATH of the launching machine", name, program),
				Want:     "its environment module loaded, or its directory in PATH",
				WouldSee: fmt.Sprintf("RuntimeError: launcher '%s' not installed.", name),
				Remedy:   []fix.Command{fix.Here("command -v %s", fix.Name(program)), fix.Here("deepspeed --launcher=pdsh …")},
			})}
		}
	}
	if name == "slurm" {
		return outsideAllocation(view)
	}
	return otherMPI(view, name)
}

// otherMPI warns of an mpirun that may be another MPI's: each has options of its
// own, and DeepSpeed never asks which one it starts. Where two of them share a
// directory a look at names cannot tell.
func otherMPI(view View, name string) []Finding {
	programs := view.Head.Launcher.Backends
	mpirun := programs["mpirun"]
	f := onHead(view, Finding{
		Verdict:  Warn,
		Got:      mpirun,
		Remedy:   []fix.Command{fix.Here("%s --version", fix.Path(mpirun)), fix.Here("deepspeed --launcher=pdsh …")},
		WouldSee: "mpirun: Error: unknown option \"-genv\"",
	})
	switch {
	case backends[name][0] != "mpirun" && directory(programs[backends[name][0]]) != directory(mpirun):
		f.Summary = fmt.Sprintf("mpirun is not from where %s is: it may be another MPI's", backends[name][0])
		f.Want = directory(programs[backends[name][0]]) + "mpirun"
		f.WouldSee = "an mpirun that refuses DeepSpeed's options"
	case name != "openmpi" && programs["ompi_info"] != "" && directory(programs["ompi_info"]) == directory(mpirun):
		f.Summary = fmt.Sprintf("ompi_info lies beside mpirun, which then is Open MPI's and does not take the options of %s", name)
		f.Want = "the mpirun of " + name + ", whose process manager is hydra"
	default:
		return nil
	}
	return []Finding{f}
}

func directory(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

// outsideAllocation warns of hosts that srun will not start on, because the
// allocation it is typed in does not have them.
func outsideAllocation(view View) []Finding {
	nodes := headVariable(view, "SLURM_JOB_NODELIST")
	allocated, err := hostfile.Expand(nodes)
	if nodes == "" || err != nil {
		return nil
	}
	var outside []string
	for _, host := range view.Launch.Hosts {
		inside := func(name string) bool { return undomained(name) == undomained(hostfile.Bare(host.Name)) }
		if !slices.ContainsFunc(allocated, inside) {
			outside = append(outside, host.Name)
		}
	}
	if outside == nil {
		return nil
	}
	return []Finding{{
		Verdict: Warn, Nodes: outside,
		Summary:  "is not in the Slurm allocation that the launch is typed in",
		Got:      "SLURM_JOB_NODELIST=" + nodes,
		Remedy:   []fix.Command{fix.Here(`scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=8/' > hostfile.slurm   # with the slots of your nodes, and launch with it`)},
		WouldSee: "srun: error: Unable to create step for job …: Requested node configuration is not available",
	}}
}

// undomained is a host's name without its domain.
func undomained(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return short
}
