// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"
	"time"

	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// These are short names for use in the rows of the table.
type (
	node = *testhosts.Node
	undo = testhosts.Undo
)

type fault struct {
	name, does string
	plant      func(node) (undo, error)
}

// secondNIC returns a fault that adds an interface in 10.78.0.0/16. The interface's address ends
// with the same bytes as the node's address. The interface is in the named network, or in a private
// network if network is "".
func secondNIC(name, network string, first bool) func(node) (undo, error) {
	return func(n node) (undo, error) {
		prefix := strings.Replace(n.Address, "10.77.", "10.78.", 1) + "/16"
		return n.AddNIC(testhosts.NIC{Name: name, Prefix: prefix, Network: network, First: first})
	}
}

// misdirected makes a node report that another node has answered all its connections.
const misdirected = `
def answered(body):
    if "reached" in body:
        names = sorted(body["reached"])
        body["failed"] = [dict(peer=name, to="", port=44111, seconds=0.2, outcome="misdirected", answered=names[-1]) for name in names]
        body["reached"] = {}
`

// gpuFaults returns a fault for every scenario of package gpus.
func gpuFaults() []fault {
	var all []fault
	for _, scenario := range gpus.Scenarios {
		all = append(all, fault{scenario.Name, scenario.Does, func(n node) (undo, error) { return n.SetDriver(scenario.GPUs()) }})
	}
	return all
}

var faults = append([]fault{
	{"killed", "all processes are killed, sshd included: connections are refused", node.Kill},
	{"frozen", "all processes are stopped: connections are accepted, but nothing answers", node.Freeze},
	{"dropped", "the firewall drops all packets", func(n node) (undo, error) { return n.Drop() }},
	{"ports-dropped", "the firewall drops connections to all ports but 22", func(n node) (undo, error) { return n.Drop("1:21", "23:65535") }},
	{"ephemeral-dropped", "the firewall drops connections to 32768-60999, where ranks listen", func(n node) (undo, error) { return n.Drop(testhosts.Ephemeral) }},
	{"ephemeral-refused", "the firewall answers connections to 32768-60999 with a reset", func(n node) (undo, error) { return n.Reject(testhosts.Ephemeral) }},
	{"ephemeral-prohibited", "the firewall answers connections to 32768-60999 with host-prohibited", func(n node) (undo, error) { return n.Prohibit(testhosts.Ephemeral) }},
	{"ephemeral-reset", "connections to 32768-60999 are accepted, then reset", func(n node) (undo, error) { return n.ResetAfterAccept(testhosts.Ephemeral) }},
	{"cut-flows", "the firewall drops all packets after the first 300 kB of a connection, except ssh", func(n node) (undo, error) { return n.CutAfter(300_000) }},
	{"one-way", "the firewall drops connections from the first other node to 32768-60999", func(n node) (undo, error) {
		peers := n.Peers()
		if len(peers) == 0 {
			return nil, errors.New("one-way needs a second node")
		}
		return n.DropFrom(peers[0], testhosts.Ephemeral)
	}},
	{"unrouted", "other machines have no route to the node", node.Unroute},
	{"no-routes", "the node has no route to the other nodes, only to the launching machine", node.LoseRoutes},
	{"arp-ignored", "the node answers no ARP request, so other nodes cannot find it", node.IgnoreARP},
	{"duplicate-address", "another machine has the same address, and half of the other nodes reach that machine", node.Twin},
	{"takes-address", "the node also has the address of the first other node", func(n node) (undo, error) {
		peers := n.Peers()
		if len(peers) == 0 {
			return nil, errors.New("takes-address needs a second node")
		}
		return n.TakeAddress(peers[0])
	}},
	{"misdirected", "the node reports that the last node answers all its calls", func(n node) (undo, error) {
		return n.ChangeAnswers(misdirected)
	}},
	{"mtu", "eth0 has MTU 1400, all other nodes have 1500", func(n node) (undo, error) { return n.SetMTU(1400) }},
	{"mtu-jumbo", "eth0 has MTU 9000, all other nodes and the switch have 1500", func(n node) (undo, error) { return n.SetMTU(9000) }},
	{"narrow-path", "packets above 1300 bytes are dropped", func(n node) (undo, error) { return n.NarrowPath(1300) }},
	{"narrow-peers", "packets above 1300 bytes from other nodes are dropped", func(n node) (undo, error) { return n.NarrowPeers(1300) }},
	{"nic-name", "eth0 is called enp4s0", func(n node) (undo, error) { return n.RenameNIC("enp4s0") }},
	{"docker0", "there is a docker0 with 172.17.0.1", node.AddDocker0},
	{"docker0-first", "there is a docker0 with 172.17.0.1, before eth0 in the list of interfaces", node.AddDocker0First},
	{"nic-isolated", "a second interface, mgmt0, is up but reaches no other node", secondNIC("mgmt0", "", false)},
	{"nic-isolated-first", "the same, and mgmt0 comes before eth0", secondNIC("mgmt0", "", true)},
	{"nic-second", "a second interface, mgmt0, in a network of all nodes that have one", secondNIC("mgmt0", "mgmt", false)},
	{"vpn-first", "a tailscale0 that reaches no other node comes before eth0", secondNIC("tailscale0", "", true)},
	{"loopback-name", "the node's own name resolves to 127.0.1.1", node.LoopbackHostname},
	{"wrong-hosts", "w1 resolves to an address that no machine has", func(n node) (undo, error) { return n.WrongHosts("w1", "10.77.250.1") }},
	{"no-name", "w1 does not resolve", func(n node) (undo, error) { return n.ForgetName("w1") }},
	{"shm-small", "/dev/shm has 64 MiB", func(n node) (undo, error) { return n.ShrinkSHM(64 << 20) }},
	{"shm-read-only", "/dev/shm is read-only", node.ReadOnlySHM},
	{"shm-leftover", "a killed run left a segment in /dev/shm", func(n node) (undo, error) { return n.LeftoverSegment("nccl-a1B2c3", 32<<20, 48*time.Hour) }},
	{"home-read-only", "root's home is mounted read-only", node.ReadOnlyHome},
	{"home-noexec", "root's home is mounted noexec", node.NoExecHome},
	{"home-full", "root's home has no free space", node.FullHome},
	{"noisy-shell", "~/.bashrc prints a line", func(n node) (undo, error) { return n.NoisyShell("Welcome to the cluster!") }},
	{"no-key", "the key is no longer in authorized_keys", node.RemoveAuthorizedKey},
	{"no-private-key", "the node has no private key and cannot log in to other nodes", node.RemovePrivateKey},
	{"head-only", "only the launching machine can log in, no other node", node.AdmitHeadOnly},
	{"host-key-unknown", "the other nodes do not know the host key of the node", node.UnknownToPeers},
	{"no-login", "the login shell is nologin", node.NoLoginShell},
	{"locked", "the account is locked", node.LockAccount},
	{"no-sshd", "only sshd has ended: connections to it are refused", node.StopSSHD},
	{"slurm-adopt", "sshd admits only users with a Slurm job on the node, as with pam_slurm_adopt", node.AdmitJobs},
	{"no-slurmd", "slurmd has ended (needs up -slurm)", node.StopSlurmd},
	{"host-key", "the host key has changed", node.ChangeHostKey},
	{"memlock", "64 KiB of locked memory, set for sshd itself: limits.conf has no effect here", func(n node) (undo, error) { return n.Limit("memlock", 64<<10) }},
	{"open-files", "256 open files, set for sshd itself: limits.conf has no effect here", func(n node) (undo, error) { return n.Limit("nofile", 256) }},
	{"port-held", "a process listens on port 29500", func(n node) (undo, error) { return n.HoldPort(29500) }},
	{"package", "another version of protobuf than on the other nodes", func(n node) (undo, error) { return n.OtherPackage("protobuf", "3.20.1") }},
	{"torch-cpu", "files of a torch for the CPU (not a fault by itself)", func(n node) (undo, error) { return n.CPUTorch("2.5.1+cpu") }},
	{"torch-cuda", "files of a torch for CUDA 12.4 (not a fault by itself)", func(n node) (undo, error) { return n.CUDATorch("2.5.1+cu124", "12.4") }},
	{"nccl-conf", "/etc/nccl.conf names an interface that does not exist", func(n node) (undo, error) { return n.Configure("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n") }},
	{"workdir-missing", "the working directory " + testhosts.JobDirectory + " is missing", func(n node) (undo, error) { return n.Hide(testhosts.JobDirectory) }},
	{"script-differs", testhosts.JobDirectory + "/train.py has one line more", func(n node) (undo, error) {
		return n.ChangeFile(testhosts.JobDirectory+"/train.py", func(text string) string { return text + "# from yesterday\n" })
	}},
	{"python-missing", "/usr/bin/python3 is missing", func(n node) (undo, error) { return n.Hide("/usr/bin/python3") }},
	{"pdsh-foreign", "on head: pdsh refuses its modules, because they belong to the user nobody", node.ForeignPDSH},
	{"env-comment", "on head: ~/.deepspeed_env begins with a comment", func(n node) (undo, error) { return n.Configure("/root/.deepspeed_env", "# NCCL\nNCCL_DEBUG=INFO\n") }},
}, gpuFaults()...)
