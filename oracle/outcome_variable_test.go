// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "strings"

// variableFaults are faults of environment variables, users and directories.
var variableFaults = []planted{
	{name: "tmpdir-long-workers", steps: sh("w2", longTemporary), files: importing(workers), dies: "pdsh"},
	{name: "tmpdir-long-workers-exported", steps: sh("nodes", "mkdir /root/"+deep), files: map[string]string{".deepspeed_env": "TMPDIR=/root/" + deep + "\n", "train.py": workers + string(training)}, dies: "pdsh"},
	{name: "tmpdir-long", steps: sh("w2", longTemporary), trains: "pdsh"},
	{name: "tmpdir-longest-workers", steps: sh("w2", strings.ReplaceAll(longTemporary, "-c 95", "-c 75")), files: importing(workers), trains: "pdsh"},
	{name: "home-unset", steps: inBashrc("unset HOME"), trains: "pdsh"},
	{name: "home-nowhere", steps: inBashrc("export HOME=/proc/nowhere"), trains: "pdsh"},
	{name: "user-unset", steps: inBashrc("unset USER LOGNAME"), trains: "pdsh"},
	{name: "python-home", steps: inBashrc("export PYTHONHOME=/nowhere"), dies: "pdsh"},
	{name: "python-hash-seed", files: map[string]string{".deepspeed_env": "PYTHONHASHSEED=abc\n"}, dies: "pdsh"},
	{name: "python-hash-seed-of-one", steps: inBashrc("export PYTHONHASHSEED=abc"), dies: "pdsh"},
	{name: "python-encoding", files: map[string]string{".deepspeed_env": "PYTHONIOENCODING=utf-88\n"}, dies: "pdsh"},
	{name: "python-startup", steps: inBashrc("export PYTHONSTARTUP=/nowhere.py PYTHONPYCACHEPREFIX=/proc/nowhere"), trains: "pdsh"},
	{name: "python-optimize", steps: inBashrc("export PYTHONOPTIMIZE=2"), trains: "pdsh"},
	{name: "locale-missing", steps: inBashrc("export LC_ALL=tlh_QO.UTF-8 LANG=tlh_QO.UTF-8"), trains: "pdsh"},
	{name: "threads-malformed", steps: inBashrc("export OMP_NUM_THREADS=many CUDA_VISIBLE_DEVICES=first"), trains: "pdsh"},
	{name: "umask-all", steps: inBashrc("umask 777"), trains: "pdsh"},
	{name: "debug-level-of-torch", steps: inBashrc("export TORCH_DISTRIBUTED_DEBUG=ON"), dies: "pdsh"},
	{name: "timeout-of-deepspeed", steps: inBashrc("export DEEPSPEED_TIMEOUT=30m"), dies: "pdsh"},
	{name: "accelerator-misspelt", files: map[string]string{".deepspeed_env": "DS_ACCELERATOR=gpu\n"}, dies: "pdsh"},
	{name: "token-here", env: []string{"WANDB_API_KEY=0123"}, files: importing("import os; os.environ['WANDB_API_KEY']\n"), dies: "pdsh"},
	{name: "token-exported", env: []string{"WANDB_API_KEY=0123"}, files: map[string]string{".deepspeed_env": "WANDB_API_KEY=0123\n", "train.py": "import os; os.environ['WANDB_API_KEY']\n" + string(training)}, trains: "pdsh"},
	{name: "token-not-needed", env: []string{"WANDB_API_KEY=0123"}, files: importing("import os; os.environ.get('WANDB_API_KEY')\n"), trains: "pdsh"},
	{name: "variable-of-one", steps: sh("w1", "echo export DATA_ROOT=/data >>/root/.bashrc"), files: importing("import os\nroot = os.environ['DATA_ROOT']\n"), dies: "pdsh"},
	{name: "stale-rank-of-mpi", steps: inBashrc("export RANK=7 WORLD_SIZE=9 LOCAL_RANK=0 MASTER_ADDR=10.77.250.1 MASTER_PORT=1"), trains: "pdsh mpich", dies: "openmpi"},
	{name: "stale-ranks-here", env: []string{"RANK=7", "WORLD_SIZE=9", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=10.77.250.1", "MASTER_PORT=1"}, trains: "pdsh c10d static accelerate"},
	{name: "network-of-mpi", steps: sh("w2", "mkdir -p /root/.openmpi; echo oob_tcp_if_include=192.0.2.0/24 >/root/.openmpi/mca-params.conf"), trains: "openmpi"},
	{name: "parameters-of-mpi-fit", steps: sh("nodes", "mkdir -p /root/.openmpi; echo oob_tcp_if_include=eth0,ib0 >/root/.openmpi/mca-params.conf"), trains: "openmpi"},
	{name: "local-address-is-loopback", env: []string{"PET_LOCAL_ADDR=localhost"}, dies: "c10d", trains: "static"},
}

// inBashrc adds a line to the file that the second node's shell reads first.
func inBashrc(line string) []step { return sh("w2", "echo '"+line+"' >>/root/.bashrc") }

// longTemporary makes a directory with a path of 95 bytes the second node's temporary directory.
const longTemporary = `
long=$(printf '/root/%-89s' tmp | tr ' ' x | head -c 95)
mkdir "$long"
echo "export TMPDIR=$long" >>/root/.bashrc`

// deep is a name of 70 bytes.
var deep = strings.Repeat("x", 70)

// workers is the code of a script whose data is loaded by another process.
const workers = `
import torch.utils.data

for _ in torch.utils.data.DataLoader([0.0, 1.0], num_workers=1):
    pass
`
