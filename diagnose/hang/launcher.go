// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"
	"strconv"

	"preflight/checks/fix"
	"preflight/facts"
)

// startedBy returns the program with which a person started the job: "deepspeed", "torchrun",
// "torchrun c10d" (with an elastic rendezvous), "accelerate", "mpirun", "mpiexec" or "srun", and "" if
// the ranks have no launcher. DeepSpeed may start its ranks through MPI or Slurm.
func (j *job) startedBy() string {
	for _, node := range j.looked {
		for _, p := range node.Jobs.Processes {
			if p.Kind == facts.JobRunner && (p.Program == "deepspeed" || p.Program == "ds") && p.Script == scriptOf(j.members) {
				return "deepspeed"
			}
		}
	}
	program := mostOf(j.members, func(m member) string {
		if m.launcher == nil {
			return ""
		}
		return m.launcher.Program
	}, nil)
	if program == "torchrun" && slices.ContainsFunc(j.members, func(m member) bool { return m.launcher != nil && elastic(m.launcher.Meeting) }) {
		return "torchrun c10d"
	}
	return map[string]string{
		"torchrun": "torchrun", "accelerate": "accelerate", "orted": "mpirun", "prted": "mpirun", "hydra_pmi_proxy": "mpiexec", "slurmstepd": "srun",
		"deepspeed.launcher.launch": "deepspeed", "launcher_helper.py": "deepspeed", "deepspeed": "deepspeed", "ds": "deepspeed",
	}[program]
}

// MeetAt returns the options of a launcher that set the master address and port. launcher is as
// startedBy returns it.
func MeetAt(launcher, address, port string) fix.Command {
	host, number := fix.Host(address), fix.Name(port)
	switch launcher {
	case "torchrun c10d":
		return fix.Here("torchrun --rdzv_endpoint=%s:%s …", host, number)
	case "torchrun":
		return fix.Here("torchrun --master_addr=%s --master_port=%s …", host, number)
	case "accelerate":
		return fix.Here("accelerate launch --main_process_ip=%s --main_process_port=%s …", host, number)
	case "deepspeed":
		return fix.Here("deepspeed --master_addr=%s --master_port=%s …", host, number)
	case "mpirun":
		return fix.Here("mpirun -x MASTER_ADDR=%s -x MASTER_PORT=%s …", host, number)
	case "mpiexec":
		return fix.Here("mpiexec -genv MASTER_ADDR %s -genv MASTER_PORT %s …", host, number)
	}
	return fix.Here("export MASTER_ADDR=%s MASTER_PORT=%s", host, number).Remark("before the command that starts the ranks")
}

// meetAt is [MeetAt] for this job.
func (j *job) meetAt(address string, port int) fix.Command {
	return MeetAt(j.startedBy(), address, strconv.Itoa(port))
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
