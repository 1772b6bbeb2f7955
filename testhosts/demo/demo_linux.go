// SPDX-License-Identifier: Apache-2.0

// Package demo breaks the hosts of `preflight demo`.
package demo

import (
	"fmt"
	"io"
	"os"

	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

type fault struct {
	node  string
	what  string
	plant func(*testhosts.Node) (testhosts.Undo, error)
}

// String returns the line that the user sees.
func (f fault) String() string { return "breaking " + f.node + ": " + f.what }

// Scenario describes one kind of demo.
type Scenario struct {
	Faults  []fault
	prepare func(*testhosts.Node) error
	Words   []string // arguments of preflight
	Skip    []string // checks whose results mean nothing on these hosts
}

// Usual has faults that preflight finds without load, and Smoke has faults that appear only under
// load.
var (
	Usual = Scenario{usualFaults, equipped, []string{"--timeout", "10s"}, nil}
	Smoke = Scenario{smokeFaults, withLibraries, []string{"--num_gpus", "1", "--smoke"}, []string{"gpu-copies", "collective-speed"}} // the processors of one machine do all the copying
)

// smokeFaults lists two faults that no other check finds.
var smokeFaults = []fault{
	{"w3", "NCCL waits for the other ranks forever", twoGPUs("ncclCommInitRankConfig", "hang")},
	{"w6", "a GPU computes wrong results", twoGPUs("cuLaunchKernel", "wrong")},
}

// twoGPUs gives a node two GPUs with simulated libcuda and libnccl. One call fails on the first
// GPU.
func twoGPUs(call, how string) func(*testhosts.Node) (testhosts.Undo, error) {
	machine := gpus.H100s(2)
	machine.NCCL, machine.Cards[0].Trouble = true, map[string]string{call: how}
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetDriver(machine) }
}

func withLibraries(node *testhosts.Node) error {
	machine := gpus.H100s(2)
	machine.NCCL = true
	if _, err := node.SetDriver(machine); err != nil {
		return err
	}
	_, err := node.CUDATorch("2.5.1+cu124", "12.4")
	return err
}

// usualFaults lists faults that typically cost people days.
var usualFaults = []fault{
	{"w1", "docker0 comes before the network card", (*testhosts.Node).AddDocker0First},
	{"w2", "/dev/shm of 64 MiB, docker's default", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.ShrinkSHM(64 << 20)
	}},
	{oddPackage, "another version of protobuf", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.OtherPackage("protobuf", "5.29.1")
	}},
	{"w4", ".bashrc prints a greeting", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.NoisyShell("Welcome to the cluster")
	}},
	{"w5", "host key differs from the one in known_hosts", (*testhosts.Node).ChangeHostKey},
	{"w6", "firewall drops everything", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop()
	}},
	{"w7", "firewall allows only ssh", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop("1:21", "23:65535")
	}},
	{"w8", "driver upgraded, but the old kernel module is still loaded", func(n *testhosts.Node) (testhosts.Undo, error) {
		driver := gpus.H100s(8)
		driver.Module = "535.161.08"
		return n.SetDriver(driver)
	}},
}

// programs lists the programs that the demo needs, with their Debian packages. A released
// preflight does not contain testhosts/apt.sh, which installs them.
var programs = []struct{ program, its string }{
	{"/usr/sbin/sshd", "openssh-server"},
	{"/usr/sbin/iptables", "iptables"},
	{"/usr/bin/python3", "python3"},
	{"/usr/bin/cc", "gcc libc6-dev"},
}

// Lacking returns what this machine lacks to start the hosts, "" for nothing.
func Lacking() string {
	if os.Geteuid() != 0 {
		return "starting hosts needs root (sudo preflight demo)"
	}
	for _, one := range programs {
		if _, err := os.Stat(one.program); err != nil {
			return "starting hosts needs " + one.program + " (apt-get install " + one.its + ")"
		}
	}
	return ""
}

// oddPackage is the node that gets another version of protobuf.
const oddPackage = "w3"

// equipped gives a node GPUs and a matching torch. It also installs protobuf, in the same version
// on every node but one.
func equipped(node *testhosts.Node) error {
	if _, err := node.SetGPUs(8); err != nil { // one per slot
		return err
	}
	if _, err := node.CUDATorch("2.5.1+cu124", "12.4"); err != nil {
		return err
	}
	if node.Name == oddPackage {
		return nil
	}
	_, err := node.OtherPackage("protobuf", "4.25.3")
	return err
}

// Break prepares every node of a cluster and then breaks some of them. It tells the user which.
func (s Scenario) Break(cluster *testhosts.Cluster, user io.Writer) error {
	for _, node := range cluster.Nodes {
		if err := s.prepare(node); err != nil {
			return err
		}
	}
	for _, fault := range s.Faults {
		node, err := cluster.Node(fault.node)
		if err != nil {
			return err
		}
		fmt.Fprintln(user, fault)
		if _, err := fault.plant(node); err != nil {
			return fmt.Errorf("%s: %w", fault, err)
		}
	}
	return nil
}
