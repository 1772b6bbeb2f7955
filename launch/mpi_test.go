// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"testing"
)

func TestOpenMPICommand(t *testing.T) {
	const (
		start  = "mpirun | -n | 4 | -hostfile | hosts | --mca | btl | ^openib | "
		eth0   = "--mca | btl_tcp_if_include | eth0 | "
		export = "-x | UCX_TLS=tcp | -x | NCCL_DEBUG=INFO | -x | PYTHONPATH=/job | "
		end    = "/py | -u | train.py | --lr | 1"
	)
	named := func(o *Options) { o.LauncherArgs = "-mca btl_tcp_if_include ens3" }
	testCommands(t, []commandCase{
		{"newest", "", "OpenMPI", nil, start + eth0 + export + end},
		{"another interface", "", "openmpi", named, start + "-mca | btl_tcp_if_include | ens3 | " + export + end},
		{"both interfaces", "0.15.1", "openmpi", named, start + eth0 + "-mca | btl_tcp_if_include | ens3 | " + export + end},
		{"no arguments yet", "0.6.5", "openmpi", named, start + eth0 + export + end},
		{"a module", "", "openmpi", func(o *Options) { o.Module = true }, start + eth0 + export + "/py | -u | -m | train.py | --lr | 1"},
		{"a program", "", "openmpi", func(o *Options) { o.NoPython, o.Arguments = true, []string{"a b"} }, start + eth0 + export + "train.py | a b"},
		{"unequal slots", "", "openmpi", func(o *Options) { o.Hosts = hosts(1, 3) }, start + eth0 + export + end},
	})
}

func TestMVAPICHCommand(t *testing.T) {
	const (
		start   = "mpirun | -np | 4 | -ppn | 2 | --hostfile | /tmp/deepspeed_mvapich_hostfile | "
		first   = "-env | MV2_SMP_USE_CMA=0 | -env | MV2_DEBUG_SHOW_BACKTRACE=1 | "
		cuda    = "-env | MV2_USE_CUDA=1 | "
		last    = "-env | MV2_SUPPORT_DL=1 | -env | MV2_ENABLE_AFFINITY=0 | -env | MV2_INTER_ALLGATHER_TUNING=5 | -env | MV2_CUDA_USE_NAIVE=0 | "
		nccl    = "-env | NCCL_DEBUG=INFO | "
		closing = "-env | PYTHONPATH=/job | /py | -u | train.py | --lr | 1"
	)
	cpu := func(o *Options) { o.Accelerator = "cpu" }
	testCommands(t, []commandCase{
		{"newest", "", "mvapich", func(o *Options) { o.LauncherArgs = "-v" }, start + "-v | " + first + cuda + last + nccl + closing},
		{"cpu", "", "mvapich", cpu, start + first + last + closing},
		{"cpu before 0.8.1", "0.8.0", "mvapich", cpu, start + first + cuda + last + nccl + closing},
	})
}

func TestMPICHCommand(t *testing.T) {
	const (
		counts  = "-n | 4 | -ppn | 2 | "
		hosts   = "-hosts | w1,w2 | "
		exports = "-genv | NCCL_DEBUG=INFO | -genv | PYTHONPATH=/job | "
		meeting = "-genv | MASTER_ADDR | 10.0.0.1 | -genv | MASTER_PORT | 29500 | -genv | WORLD_SIZE | 4 | -genv | LOCAL_SIZE | 2 | "
		script  = "/py | -u | train.py | --lr | 1"
		helper  = "$DEEPSPEED/launcher/launcher_helper.py | --launcher | mpich | "
	)
	arg := func(o *Options) { o.LauncherArgs = "-v" }
	testCommands(t, []commandCase{
		{"newest", "", "mpich", arg, "mpirun | " + counts + "-v | " + exports + meeting + hosts + "/py | -u | " + helper + "train.py | --lr | 1"},
		{"a module", "0.13.2", "MPICH", func(o *Options) { o.Module = true }, "mpirun | " + counts + exports + meeting + hosts + "/py | -u | -m | " + helper + "--module | train.py | --lr | 1"},
		{"a program", "", "mpich", func(o *Options) { o.NoPython = true }, "mpirun | " + counts + exports + meeting + hosts + helper + "--no_python | train.py | --lr | 1"},
		{"one command a rank", "0.9.3", "mpich", arg, "mpirun | -v | " + exports + meeting +
			"-n | 1 | -host | w1 | -env | RANK | 0 | -env | LOCAL_RANK | 0 | " + script + " | : | -n | 1 | -host | w1 | -env | RANK | 1 | -env | LOCAL_RANK | 1 | " + script +
			" | : | -n | 1 | -host | w2 | -env | RANK | 2 | -env | LOCAL_RANK | 0 | " + script + " | : | -n | 1 | -host | w2 | -env | RANK | 3 | -env | LOCAL_RANK | 1 | " + script},
		{"with exports", "0.9.2", "mpich", arg, "mpirun | " + counts + hosts + "-v | " + exports + script},
		{"without", "0.9.1", "mpich", arg, "mpirun | " + counts + "-v | " + script},
	})
}

func TestIMPICommand(t *testing.T) {
	const (
		start = "mpirun | -ppn | 1 | -genv | NCCL_DEBUG | INFO | -genv | PYTHONPATH | /job | -genv | MASTER_ADDR | $MASTER_ADDR | -genv | MASTER_PORT | 29500 | " +
			"-genv | WORLD_SIZE | 2 | -genv | LOCAL_SIZE | 1 | "
		ranks = "-hosts | w1,w2 | -n | 1 | -env | RANK | 0 | -env | LOCAL_RANK | 0 | /py | -u | train.py | --lr | 1 | : | -n | 1 | -env | RANK | 1 | -env | LOCAL_RANK | 0 | /py | -u | train.py | --lr | 1"
	)
	small := func(o *Options) { o.Hosts, o.MasterAddr = hosts(1, 1), "" }
	testCommands(t, []commandCase{
		{"newest", "", "impi", small, start + "-genv | I_MPI_PIN | 0 | " + ranks},
		{"pinned by Intel MPI", "0.11.1", "impi", small, start + ranks},
	})
}
