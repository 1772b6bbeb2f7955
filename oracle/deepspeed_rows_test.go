// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import "path/filepath"

// handPicked returns commands that a person chose. They cover every kind of hostfile line, every
// filter and every trap of the environment.
func handPicked(root string) []command {
	plain := func() command {
		return command{
			Argv:  []string{"-H", "hostfile", "train.py"},
			Env:   map[string]string{"HOME": filepath.Join(root, "home")},
			Files: map[string][]byte{"work/hostfile": []byte("w0 slots=2\nw1 slots=4\nw2 slots=3\n")}, Python: "/usr/bin/python3", Accelerator: "cuda", Devices: 2,
		}
	}
	var all []command
	add := func(change func(*command)) {
		c := plain()
		change(&c)
		all = append(all, c)
	}
	for _, text := range hostfiles {
		add(func(c *command) { c.Files["work/hostfile"] = []byte(text) })
		add(func(c *command) { c.Files["work/hostfile"] = []byte(text + "\nlast slots=1") })
	}
	for _, filter := range filters {
		add(func(c *command) { c.Argv = append([]string{"-H", "hostfile", "-i", filter}, "train.py") })
		add(func(c *command) {
			c.Argv = append([]string{"-H", "hostfile", "--force_multi", "--exclude=" + filter}, "train.py")
		})
	}
	for _, argv := range commandLines {
		add(func(c *command) { c.Argv = argv })
		add(func(c *command) { c.Argv = argv; c.Files = map[string][]byte{} })
	}
	for _, text := range envFiles {
		add(func(c *command) { c.Files["work/.deepspeed_env"] = []byte(text) })
		add(func(c *command) {
			c.Files["home/.deepspeed_env"] = []byte(text)
			c.Files["work/.deepspeed_env"] = []byte("NCCL_DEBUG=WARN\n")
		})
	}
	return all
}

// hostfiles lists texts of hostfiles, which are single lines or whole files.
var hostfiles = []string{
	"", "\n", "# nothing", "w slots=4", "w\tslots=4", "  w   slots=4  ", "w slots=4 max_slots=8", "w slots=4 # c", "w slots=4,", "w slots=4x", "w slots=4.5",
	"w slots=1_0", "w slots=04", "w slots=0", "w slots=4 slots=8", "w max_slots=8 slots=4", "w", "w slots=", "w slots =4", "w slots= 4", "w Slots=4",
	"w slots=-1", "w gpus=4", "w # slots=4", "w#1 slots=3", "w:22 slots=2", "u@w slots=2", "[::1] slots=2", "a,b slots=2", "n[1-2] slots=2",
	"\ufeffw slots=2", "\ufeff# c", "w\u00a0slots=2", "w\vslots=2", "w slots=04", "w slots=4\rx slots=2", "w slots=4\r\nx slots=2\r\n", "w slots=2\nw slots=2",
	"w slots=2\nw.domain slots=2", "w slots=2 \n\n#c\n x slots=3", "slots=4", "w slots=4\x00", "w slots=\xff4", "\x85w slots=2", "w\u2028slots=2", "w \u2029 slots=2",
}

// filters lists filters for the hosts w0 to w2 with 2, 4 and 3 slots.
var filters = []string{
	"w0", "w1", "w0@w1:0,2", "w1:0,2", "w1:2,0", "w1:0@w1:2", "w1:2@w1:0", "w1:0,0", "w1:9", "w1:-1", "w1: 1", "w1:1 ", "w1:0-2", "w0@", "@", "@w0", "w0@@w1",
	"w9", "w9:0", "w0:", "w0:a", "w0:0:1", "::1", "w0:0,1@w1:0,1,2,3@w2:0,1,2", "w0:0,1@w1@w2", "w2@w0", " w0", "w0 ", "w1:1_0", "w1:+1", "w1:01", "w0@w0",
	"w0@w0:1", "w0:1@w0", "w9@w0:a", "w0:a@w9", "w0:0:1@w9", "w1:0,9,a", "w1:0@w1:0", "w0:0@w1:7@w9",
}

// commandLines lists command lines for the same hosts as filters.
var commandLines = [][]string{
	{}, {"--help"}, {"-h", "train.py"}, {"train.py"}, {"train.py", "--help"}, {"train.py", "-H", "x", "--", "--num_gpus"}, {"--", "train.py"}, {"--", "train.py", "--", "a"},
	{"--num-gpus", "2", "train.py"}, {"--num-gpus=2", "train.py"}, {"--num_gpus", "train.py"}, {"--num_gpus=", "train.py"}, {"--num_gpus", "-1", "train.py"},
	{"--num", "2", "train.py"}, {"--num_g", "2", "train.py"}, {"--no", "train.py"}, {"--master", "x", "train.py"}, {"--inc", "w0", "train.py"}, {"--i", "w0", "train.py"},
	{"-iw0", "train.py"}, {"-i=w0", "train.py"}, {"-Hhostfile", "train.py"}, {"-H=hostfile", "train.py"}, {"-qHhostfile", "train.py"}, {"-qi", "w0:0", "train.py"},
	{"-H", "hostfile", "--num_nodes", "0", "-i", "w0", "train.py"}, {"-H", "hostfile", "--num_nodes=-1", "-i", "w0:0", "train.py"},
	{"-H", "hostfile", "-i", "w0:0", "-e", "w1", "train.py"}, {"-H", "hostfile", "--num_nodes", "9", "train.py"}, {"-H", "hostfile", "--num_nodes", "1", "train.py"},
	{"-H", "hostfile", "--num_nodes", "1", "--force_multi", "train.py"}, {"-H", "hostfile", "--num_gpus", "8", "train.py"}, {"-H", "hostfile", "--num_nodes", "0", "train.py"},
	{"-H", "hostfile", "--module", "pkg.train", "--x"}, {"-H", "hostfile", "--module=1", "pkg.train"}, {"-H", "hostfile", "--no_python", "./run.sh"},
	{"-H", "hostfile", "--no_python", "--module", "pkg.train"}, {"-H", "hostfile", "--save_pid", "train.py"}, {"-H", "hostfile", "--autotuning", "tune", "train.py"},
	{"-H", "hostfile", "--autotuning", "walk", "train.py"}, {"-H", "hostfile", "--ssh_port", "2222", "train.py"}, {"-H", "hostfile", "--venv_script", "/v/activate", "train.py"},
	{"-H", "hostfile", "--no_ssh", "train.py"}, {"-H", "hostfile", "--no_ssh", "--node_rank", "1", "--master_addr", "w0", "train.py"},
	{"-H", "hostfile", "--no_ssh", "--node_rank", "3", "--master_addr", "w0", "train.py"}, {"-H", "hostfile", "--elastic_training", "train.py"},
	{"-H", "hostfile", "--elastic_training", "--master_addr", "w0", "--no_local_rank", "train.py"},
	{"-H", "hostfile", "--elastic_training", "--master_addr", "w0", "--max_elastic_nodes", "3", "train.py"},
	{"-H", "hostfile", "--launcher", "openmpi", "--num_gpus", "1", "train.py"}, {"-H", "hostfile", "--launcher", "mpich", "-i", "w0:0", "--force_multi", "train.py"},
	{"-H", "hostfile", "--launcher", "MVAPICH", "train.py"}, {"-H", "hostfile", "--launcher", "impi", "train.py"}, {"-H", "hostfile", "--launcher", "ssh", "train.py"},
	{"-H", "hostfile", "--launcher", "slurm", "--num_nodes", "2", "--num_gpus", "2", "train.py"}, {"-H", "hostfile", "--launcher", "slurm", "-i", "w0@w1:0,1", "train.py"},
	{"-H", "hostfile", "--launcher", "slurm", "-i", "w0:1", "train.py"}, {"-H", "hostfile", "--launcher_args", "'a", "train.py"}, {"-H", "hostfile", "--launcher_args", "-t 5 -o 'x y'", "train.py"},
	{"-H", "hostfile", "--launcher_args=--mca btl_tcp_if_include eth1", "--launcher=openmpi", "train.py"}, {"-H", "hostfile", "train.py", "a b", "it's", `"q"`, `"q r"`, "-x y", "$HOME", "%n"},
	{"-H", "hostfile", "--bind_cores_to_rank", "--bind_core_list", "0-3", "-q", "train.py"}, {"-H", "hostfile", "--log_level", "loud", "train.py"}, {"-H", "gone", "train.py"}, {"-H", ".", "train.py"},
	{"-H", "hostfile", "--master_port", "70000", "train.py"}, {"-H", "hostfile", "--master_port", "0", "train.py"}, {"-H", "hostfile", "--enable_each_rank_log", "logs", "train.py"},
	{"-H", "hostfile", "--enable_each_rank_log", "", "train.py"}, {"--num_nodes", "2", "train.py"}, {"--num_nodes", "1", "train.py"}, {"-i", "localhost:1", "train.py"}, {"-i", "w0", "train.py"},
	{"--num_gpus", "1", "--num_gpus", "2", "train.py"}, {"-1"}, {"-1", "train.py"}, {"-H", "hostfile", "-1", "train.py"}, {"-H", "hostfile", "-", "train.py"}, {"--foo", "train.py"}, {"train.py", "--foo"},
	{"--master_addr", "-1", "train.py"}, {"--master_addr", "--x", "train.py"}, {"--launcher_args", "-x y", "train.py"}, {"--launcher_args", "-x", "train.py"}, {"--launcher_args=-x", "train.py"},
}

// envFiles lists texts of a .deepspeed_env.
var envFiles = []string{
	"", "\n", "NCCL_DEBUG=INFO", "NCCL_DEBUG=INFO\n\n", "#…\nNCCL_DEBUG=INFO\n", "#…=…\n", "export NCCL_DEBUG=INFO\n", " NCCL_DEBUG = INFO \n", "NCCL_DEBUG=a=b\n", "NCCL_DEBUG=\n",
	"NCCL_DEBUG=\"a b\"\n", "NCCL_DEBUG='a'\n", "NCCL_DEBUG=a b\n", "NCCL_DEBUG=a;b\n", "NCCL_DEBUG=$HOME\n", "NCCL_DEBUG\n", "=…\n", "TOKEN=…\n", "PATH=/x\r\n", "PYTHONPATH=/x\n",
	"NCCL_DEBUG=INFO\rUCX_TLS=tcp\n", "\ufeffNCCL_DEBUG=…\n", "NCCL_DEBUG=\u00a0x\n",
}
