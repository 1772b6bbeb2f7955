// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"net"
	"strconv"
)

// launcher is one way to start a training.
type launcher struct {
	name       string
	program    string // name of the program in bin of the virtual environment
	everywhere bool   // the command is typed on every node, not only on the launching machine
	words      func(o *rehearsal, node int) []string
	env        []string // environment of the shell in which the command is typed
	installed  string   // a script that installs the launcher on every machine
}

var launchers = []launcher{
	{name: "pdsh", program: "deepspeed", words: deepspeedWords("pdsh")},
	// If both MPI implementations are installed, Debian's mpirun is Open MPI's. By default neither
	// implementation runs as root.
	{name: "openmpi", program: "deepspeed", words: deepspeedWords("openmpi"), env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}},
	{name: "mpich", program: "deepspeed", words: deepspeedWords("mpich"), installed: "ln -sf /usr/bin/mpirun.mpich /etc/alternatives/mpirun"},
	{name: "c10d", program: "torchrun", everywhere: true, words: func(o *rehearsal, _ int) []string {
		patience := o.seconds()
		return []string{
			"--nnodes", o.count(), "--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_id", "oracle",
			"--rdzv_endpoint", net.JoinHostPort(o.meets(), "29400"), "--rdzv_conf", "join_timeout=" + patience + ",read_timeout=" + patience,
		}
	}},
	{name: "static", program: "torchrun", everywhere: true, words: func(o *rehearsal, node int) []string {
		return []string{
			"--nnodes", o.count(), "--nproc_per_node", "1", "--node_rank", strconv.Itoa(node),
			"--master_addr", o.meets(), "--master_port", "29500", "--rdzv_conf", "timeout=" + o.seconds(),
		}
	}},
	{name: "accelerate", program: "accelerate", everywhere: true, words: func(o *rehearsal, node int) []string {
		return o.accelerate(node, "--multi_gpu", "--same_network") // a mode that needs no GPU
	}},
	{name: "accelerate-pdsh", program: "accelerate", words: func(o *rehearsal, _ int) []string {
		return o.accelerate(0, "--use_deepspeed", "--deepspeed_hostfile", "hostfile", "--deepspeed_multinode_launcher", "pdsh")
	}},
}

func deepspeedWords(launcher string) func(*rehearsal, int) []string {
	return func(*rehearsal, int) []string { return []string{"--hostfile", "hostfile", "--launcher", launcher} }
}

func (o *rehearsal) accelerate(node int, how ...string) []string {
	return append(append([]string{"launch"}, how...), "--num_machines", o.count(), "--num_processes", o.count(), "--machine_rank", strconv.Itoa(node),
		"--main_process_ip", o.meets(), "--main_process_port", "29500", "--mixed_precision", "no", "--dynamo_backend", "no")
}

// count returns the number of nodes.
func (o *rehearsal) count() string { return strconv.Itoa(len(o.hosts.Nodes)) }

// seconds returns how long ranks wait for each other.
func (o *rehearsal) seconds() string { return strconv.Itoa(int(o.patience.Seconds())) }
