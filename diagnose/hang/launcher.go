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

// MeetAt returns the option of a launcher that sets the master address. launcher is as in [Report].
// torchrun's c10d has one option for the address and the port.
func MeetAt(launcher, address, port string) fix.Command {
	host := fix.Host(address)
	switch launcher {
	case "torchrun c10d":
		return fix.Here("torchrun --rdzv_endpoint=%s:%s …", host, fix.Name(port))
	case "torchrun":
		return fix.Here("torchrun --master_addr=%s …", host)
	case "accelerate":
		return fix.Here("accelerate launch --main_process_ip=%s …", host)
	case "deepspeed":
		return fix.Here("deepspeed --master_addr=%s …", host)
	case "mpirun":
		return fix.Here("mpirun -x MASTER_ADDR=%s …", host)
	case "mpiexec":
		return fix.Here("mpiexec -genv MASTER_ADDR %s …", host)
	}
	return fix.Here("export MASTER_ADDR=%s", host).Remark("before the command that starts the ranks")
}

// MeetOn returns the option of a launcher that sets the master port.
func MeetOn(launcher, address, port string) fix.Command {
	number := fix.Name(port)
	switch launcher {
	case "torchrun c10d":
		return MeetAt(launcher, address, port)
	case "torchrun":
		return fix.Here("torchrun --master_port=%s …", number)
	case "accelerate":
		return fix.Here("accelerate launch --main_process_port=%s …", number)
	case "deepspeed":
		return fix.Here("deepspeed --master_port=%s …", number)
	case "mpirun":
		return fix.Here("mpirun -x MASTER_PORT=%s …", number)
	case "mpiexec":
		return fix.Here("mpiexec -genv MASTER_PORT %s …", number)
	}
	return fix.Here("export MASTER_PORT=%s", number).Remark("before the command that starts the ranks")
}

// meetAt is [MeetAt] for this job and its port.
func (j *job) meetAt(address string) fix.Command {
	return MeetAt(j.startedBy(), address, strconv.Itoa(j.most.Port))
}

// meetOn is [MeetOn] for this job and its address.
func (j *job) meetOn(port int) fix.Command {
	return MeetOn(j.startedBy(), j.most.Address, strconv.Itoa(port))
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
