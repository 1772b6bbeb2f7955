// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// heeded lists the only environment variables that are kept of a process. They tell the process's
// place in a job and where torch builds ops for the process.
//
// Sources: torch 2.5, torch/distributed/elastic/agent/server/local_elastic_agent.py; DeepSpeed
// 0.15, launcher/launch.py (LOCAL_SIZE is its own); Open MPI and MPICH set theirs for every rank,
// Slurm for every task. A batch script also has SLURM_PROCID and SLURM_NTASKS but is not a task.
// Only srun sets variables that begin with SLURM_STEP (srun(1) and sbatch(1), output environment
// variables).
var heeded = []string{
	"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"HOME", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME",
	"NCCL_RAS_ADDR", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS",
}

// rankMeeting returns the settings in the environment that a rank was started with. Variables that
// a script sets later do not appear there.
func rankMeeting(environ map[string]string, argv []string) facts.Meeting {
	number := func(names ...string) *int {
		for _, name := range names {
			if n, err := strconv.Atoi(environ[name]); err == nil {
				return &n
			}
		}
		return nil
	}
	size := func(names ...string) int {
		if n := number(names...); n != nil {
			return *n
		}
		return 0
	}
	m := facts.Meeting{
		Rank:      number("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
		LocalRank: number("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
		NodeRank:  number("GROUP_RANK", "SLURM_NODEID"),
		World:     size("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"),
		Local:     size("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
		Address:   environ["MASTER_ADDR"], Port: size("MASTER_PORT"),
		RunID: environ["TORCHELASTIC_RUN_ID"], Restarts: size("TORCHELASTIC_RESTART_COUNT"),
	}
	if m.RunID == "none" { // the run ID of torchrun without --rdzv-id
		m.RunID = ""
	}
	if local, err := strconv.Atoi(option(argv, "local_rank")); err == nil && m.LocalRank == nil {
		m.LocalRank = &local
	}
	return m
}

// launcherModules maps Python modules to the launchers that they run.
var launcherModules = map[string]string{
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
	"deepspeed.launcher.launch": "deepspeed.launcher.launch", "deepspeed.launcher.runner": "deepspeed",
	"accelerate.commands.launch": "accelerate",
}

// programs maps names of programs to their kinds. Launchers start ranks on their own node, and
// runners start programs on other nodes. Under MPICH, DeepSpeed's helper waits for the single rank
// that it starts (0.15, launcher/launcher_helper.py).
var programs = map[string]string{
	"torchrun": facts.JobLauncher, "accelerate": facts.JobLauncher, "orted": facts.JobLauncher, "prted": facts.JobLauncher,
	"hydra_pmi_proxy": facts.JobLauncher, "slurmstepd": facts.JobLauncher, "deepspeed.launcher.launch": facts.JobLauncher, "launcher_helper.py": facts.JobLauncher,
	"deepspeed": facts.JobRunner, "ds": facts.JobRunner, "pdsh": facts.JobRunner, "srun": facts.JobRunner,
	"mpirun": facts.JobRunner, "mpiexec": facts.JobRunner, "mpiexec.hydra": facts.JobRunner, "orterun": facts.JobRunner,
}

// launcher returns the kind and name of the launcher that a command line starts, "" for other
// programs.
func launcher(argv []string) (kind, program string) {
	if len(argv) == 0 {
		return "", ""
	}
	program = argv[0]
	if isPython(argv) {
		program = launcherModules[moduleOf(argv)]
		if at := slices.IndexFunc(argv[1:], func(word string) bool { return !strings.HasPrefix(word, "-") }); program == "" && at >= 0 {
			program = argv[1+at]
		}
	}
	program, _, _ = strings.Cut(path.Base(program), ":") // for example "slurmstepd: [118.0]"
	if kind = programs[program]; kind == "" {
		program = ""
	}
	return kind, program
}

// launcherMeeting returns the settings on a launcher's command line. torchrun and accelerate accept
// options with hyphens and underscores.
//
// Sources: torch 2.5, torch/distributed/run.py; DeepSpeed 0.15, launcher/launch.py; accelerate 1.0,
// commands/launch.py.
func launcherMeeting(argv []string) facts.Meeting {
	argv = argv[:scriptAt(argv)] // the rest belongs to the script
	m := facts.Meeting{
		Address: cmp.Or(option(argv, "master_addr"), option(argv, "main_process_ip")),
		Nodes:   cmp.Or(option(argv, "nnodes"), option(argv, "num_machines")),
		RunID:   option(argv, "rdzv_id"), Backend: option(argv, "rdzv_backend"),
	}
	m.Port, _ = strconv.Atoi(cmp.Or(option(argv, "master_port"), option(argv, "main_process_port"))) // 0 if it is not a number
	m.Local, _ = strconv.Atoi(option(argv, "nproc_per_node"))
	if rank, err := strconv.Atoi(cmp.Or(option(argv, "node_rank"), option(argv, "machine_rank"))); err == nil {
		m.NodeRank = &rank
	}
	if endpoint := option(argv, "rdzv_endpoint"); endpoint != "" {
		host, port, err := net.SplitHostPort(endpoint)
		if err != nil {
			host, port = endpoint, "29400" // DEFAULT_PORT of torch's c10d_rendezvous_backend.py
		}
		m.Address = host
		m.Port, _ = strconv.Atoi(port)
	}
	return m
}

// option returns the value of an option in any spelling, or "" if the option is not set.
func option(words []string, name string) string {
	for i, word := range words {
		key, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || strings.ReplaceAll(key, "-", "_") != name {
			continue
		}
		if !has && i+1 < len(words) {
			value = words[i+1]
		}
		return value
	}
	return ""
}

// moduleOf returns the module that python runs with -m, "" for a script.
func moduleOf(argv []string) string {
	for i, word := range argv {
		switch {
		case i == 0:
		case word == "-m" && i+1 < len(argv):
			return argv[i+1]
		case !strings.HasPrefix(word, "-"):
			return ""
		}
	}
	return ""
}
