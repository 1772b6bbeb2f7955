// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// startedBy returns the program with which a person started the job: "deepspeed", "torchrun",
// "accelerate", "mpirun", "mpiexec" or "srun", and "" if the ranks have no launcher. DeepSpeed may
// start its ranks through an MPI or Slurm.
func (j *job) startedBy() string {
	for _, node := range j.looked {
		for _, p := range node.Jobs.Processes {
			if p.Kind == facts.JobRunner && (p.Program == "deepspeed" || p.Program == "ds") && p.Script == scriptOf(j.members) {
				return "deepspeed"
			}
		}
	}
	return map[string]string{
		"torchrun": "torchrun", "accelerate": "accelerate", "orted": "mpirun", "prted": "mpirun", "hydra_pmi_proxy": "mpiexec", "slurmstepd": "srun",
		"deepspeed.launcher.launch": "deepspeed", "launcher_helper.py": "deepspeed", "deepspeed": "deepspeed", "ds": "deepspeed",
	}[mostOf(j.members, func(m member) string {
		if m.launcher == nil {
			return ""
		}
		return m.launcher.Program
	}, nil)]
}

// isElastic reports whether the launchers have a rendezvous of their own, as torchrun's with c10d.
func (j *job) isElastic() bool {
	return slices.ContainsFunc(j.members, func(m member) bool { return m.launcher != nil && elastic(m.launcher.Meeting) })
}

// meetAt returns the option of the job's launcher that sets the master address, and for port the
// master port. An address of "" and a port of 0 stand for the job's own.
func (j *job) meetAt(address string, port int) fix.Command {
	host, number := fix.Host(cmp.Or(address, j.most.Address)), fix.Number(cmp.Or(port, j.most.Port))
	by := j.startedBy()
	switch {
	case by == "torchrun" && j.isElastic():
		return fix.Here("torchrun --rdzv_endpoint=%s:%s …", host, number)
	case by == "torchrun" && port == 0:
		return fix.Here("torchrun --master_addr=%s …", host)
	case by == "torchrun":
		return fix.Here("torchrun --master_port=%s …", number)
	case by == "accelerate" && port == 0:
		return fix.Here("accelerate launch --main_process_ip=%s …", host)
	case by == "accelerate":
		return fix.Here("accelerate launch --main_process_port=%s …", number)
	case by == "deepspeed" && port == 0:
		return fix.Here("deepspeed --master_addr=%s …", host)
	case by == "deepspeed":
		return fix.Here("deepspeed --master_port=%s …", number)
	case by == "mpirun" && port == 0:
		return fix.Here("mpirun -x MASTER_ADDR=%s …", host)
	case by == "mpirun":
		return fix.Here("mpirun -x MASTER_PORT=%s …", number)
	case by == "mpiexec" && port == 0:
		return fix.Here("mpiexec -genv MASTER_ADDR %s …", host)
	case by == "mpiexec":
		return fix.Here("mpiexec -genv MASTER_PORT %s …", number)
	case port == 0:
		return fix.Here("export MASTER_ADDR=%s", host).Remark("before the command that starts the ranks")
	}
	return fix.Here("export MASTER_PORT=%s", number).Remark("before the command that starts the ranks")
}

// onNodes returns the option of the job's launcher that sets the number of nodes.
func (j *job) onNodes(count string) fix.Command {
	if j.startedBy() == "accelerate" {
		return fix.Here("accelerate launch --num_machines=%s …", fix.Word(count))
	}
	return fix.Here("torchrun --nnodes=%s …", fix.Word(count))
}

// asNode returns the option of the job's launcher that numbers the nodes.
func (j *job) asNode() fix.Command {
	if j.startedBy() == "accelerate" {
		return fix.Here("accelerate launch --machine_rank=N …")
	}
	return fix.Here("torchrun --node_rank=N …")
}
