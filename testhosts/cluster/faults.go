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

// What the rows are of.
type (
	node = *testhosts.Node
	undo = testhosts.Undo
)

type fault struct {
	name, does string
	plant      func(node) (undo, error)
}

// secondNIC gives a node an interface with an address in 10.78.0.0/16 that ends
// like its own, on the named network, or on one that nobody else is on.
func secondNIC(name, network string, first bool) func(node) (undo, error) {
	return func(n node) (undo, error) {
		prefix := strings.Replace(n.Address, "10.77.", "10.78.", 1) + "/16"
		return n.AddNIC(testhosts.NIC{Name: name, Prefix: prefix, Network: network, First: first})
	}
}

// misdirected makes a node report that another node answered all its calls.
const misdirected = `
def answered(body):
    if "reached" in body:
        names = sorted(body["reached"])
        body["failed"] = [dict(peer=name, to="", port=44111, seconds=0.2, outcome="misdirected", answered=names[-1]) for name in names]
        body["reached"] = {}
`

// gpuFaults give a node GPUs and a driver, in every way that there is one.
func gpuFaults() []fault {
	var all []fault
	for _, scenario := range gpus.Scenarios {
		all = append(all, fault{scenario.Name, scenario.Does, func(n node) (undo, error) { return n.SetDriver(scenario.GPUs()) }})
	}
	return all
}

var faults = append([]fault{
	{"killed", "sshd and all else is dead: connections are refused", node.Kill},
	{"frozen", "every process is stopped: connections are accepted, nothing follows", node.Freeze},
	{"dropped", "the firewall drops everything", func(n node) (undo, error) { return n.Drop() }},
	{"ports-dropped", "the firewall drops connections to all ports but 22", func(n node) (undo, error) { return n.Drop("1:21", "23:65535") }},
	{"ephemeral-dropped", "the firewall drops connections to 32768-60999, where ranks listen", func(n node) (undo, error) { return n.Drop(testhosts.Ephemeral) }},
	{"ephemeral-refused", "the firewall answers connections to 32768-60999 with a reset", func(n node) (undo, error) { return n.Reject(testhosts.Ephemeral) }},
	{"ephemeral-prohibited", "the firewall answers connections to 32768-60999 with host-prohibited", func(n node) (undo, error) { return n.Prohibit(testhosts.Ephemeral) }},
	{"ephemeral-reset", "connections to 32768-60999 are accepted, then reset", func(n node) (undo, error) { return n.ResetAfterAccept(testhosts.Ephemeral) }},
	{"cut-flows", "the firewall drops what comes after the first 300 kB of a connection, ssh's excepted", func(n node) (undo, error) { return n.CutAfter(300_000) }},
	{"one-way", "the firewall drops what the first other node starts to 32768-60999", func(n node) (undo, error) {
		peers := n.Peers()
		if len(peers) == 0 {
			return nil, errors.New("one-way needs a second node")
		}
		return n.DropFrom(peers[0], testhosts.Ephemeral)
	}},
	{"unrouted", "no route to the host", node.Unroute},
	{"no-routes", "no route to the other nodes, only to the head", node.LoseRoutes},
	{"arp-ignored", "it answers no ARP request, and no other node knows where it is", node.IgnoreARP},
	{"duplicate-address", "a machine that is no node holds its address, too, and every second other node calls that one", node.Twin},
	{"takes-address", "it holds the address of the first other node besides its own", func(n node) (undo, error) {
		peers := n.Peers()
		if len(peers) == 0 {
			return nil, errors.New("takes-address needs a second node")
		}
		return n.TakeAddress(peers[0])
	}},
	{"misdirected", "it reports that the last node answers whichever node it calls", func(n node) (undo, error) {
		return n.ChangeAnswers(misdirected)
	}},
	{"mtu", "eth0 has MTU 1400, all others 1500", func(n node) (undo, error) { return n.SetMTU(1400) }},
	{"mtu-jumbo", "eth0 has MTU 9000, all others and the switch 1500", func(n node) (undo, error) { return n.SetMTU(9000) }},
	{"narrow-path", "packets above 1300 bytes vanish", func(n node) (undo, error) { return n.NarrowPath(1300) }},
	{"narrow-peers", "packets above 1300 bytes vanish when they come from other nodes", func(n node) (undo, error) { return n.NarrowPeers(1300) }},
	{"nic-name", "eth0 is called enp4s0", func(n node) (undo, error) { return n.RenameNIC("enp4s0") }},
	{"docker0", "there is a docker0 with 172.17.0.1", node.AddDocker0},
	{"docker0-first", "there is a docker0 with 172.17.0.1, and it precedes eth0", node.AddDocker0First},
	{"nic-isolated", "a second NIC, mgmt0, is up and reaches nobody", secondNIC("mgmt0", "", false)},
	{"nic-isolated-first", "the same, and it precedes eth0", secondNIC("mgmt0", "", true)},
	{"nic-second", "a second NIC, mgmt0, on a network of all nodes that have one", secondNIC("mgmt0", "mgmt", false)},
	{"vpn-first", "a tailscale0 that reaches nobody precedes eth0", secondNIC("tailscale0", "", true)},
	{"loopback-name", "its own name resolves to 127.0.1.1", node.LoopbackHostname},
	{"wrong-hosts", "w1 resolves to an address nobody has", func(n node) (undo, error) { return n.WrongHosts("w1", "10.77.250.1") }},
	{"no-name", "w1 does not resolve", func(n node) (undo, error) { return n.ForgetName("w1") }},
	{"shm-small", "/dev/shm has 64 MiB", func(n node) (undo, error) { return n.ShrinkSHM(64 << 20) }},
	{"shm-read-only", "/dev/shm cannot be written", node.ReadOnlySHM},
	{"shm-leftover", "a killed run left a segment in /dev/shm", func(n node) (undo, error) { return n.LeftoverSegment("nccl-a1B2c3", 32<<20, 48*time.Hour) }},
	{"home-read-only", "root's home is mounted read-only", node.ReadOnlyHome},
	{"home-noexec", "root's home is mounted noexec", node.NoExecHome},
	{"home-full", "root's home has no byte free", node.FullHome},
	{"noisy-shell", "~/.bashrc prints a line", func(n node) (undo, error) { return n.NoisyShell("Welcome to the cluster!") }},
	{"no-key", "the key is not authorized any more", node.RemoveAuthorizedKey},
	{"no-private-key", "it cannot log in to other nodes", node.RemovePrivateKey},
	{"head-only", "it lets the head in and no other node", node.AdmitHeadOnly},
	{"host-key-unknown", "the other nodes do not know its host key", node.UnknownToPeers},
	{"no-login", "the login shell is nologin", node.NoLoginShell},
	{"locked", "the account is locked", node.LockAccount},
	{"no-sshd", "sshd is stopped, and nothing else: connections to it are refused", node.StopSSHD},
	{"slurm-adopt", "sshd lets in only who has a Slurm job there, as with pam_slurm_adopt", node.AdmitJobs},
	{"no-slurmd", "with up -slurm: slurmd is dead", node.StopSlurmd},
	{"host-key", "the host key has changed", node.ChangeHostKey},
	{"memlock", "64 KiB of locked memory, set on sshd itself: limits.conf has no say here", func(n node) (undo, error) { return n.Limit("memlock", 64<<10) }},
	{"open-files", "256 open files, set on sshd itself: limits.conf has no say here", func(n node) (undo, error) { return n.Limit("nofile", 256) }},
	{"port-held", "something listens on 29500", func(n node) (undo, error) { return n.HoldPort(29500) }},
	{"package", "another version of protobuf than elsewhere", func(n node) (undo, error) { return n.OtherPackage("protobuf", "3.20.1") }},
	{"torch-cpu", "a torch for the CPU, as far as its files say: no fault by itself", func(n node) (undo, error) { return n.CPUTorch("2.5.1+cpu") }},
	{"torch-cuda", "a torch for CUDA 12.4, as far as its files say: no fault by itself", func(n node) (undo, error) { return n.CUDATorch("2.5.1+cu124", "12.4") }},
	{"nccl-conf", "/etc/nccl.conf names an interface that is not there", func(n node) (undo, error) { return n.Configure("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n") }},
	{"workdir-missing", testhosts.JobDirectory + ", which every machine has, is not there", func(n node) (undo, error) { return n.Hide(testhosts.JobDirectory) }},
	{"script-differs", testhosts.JobDirectory + "/train.py has a line more", func(n node) (undo, error) {
		return n.ChangeFile(testhosts.JobDirectory+"/train.py", func(text string) string { return text + "# from yesterday\n" })
	}},
	{"python-missing", "there is no /usr/bin/python3", func(n node) (undo, error) { return n.Hide("/usr/bin/python3") }},
	{"pdsh-foreign", "on the head: pdsh's modules belong to nobody, and it refuses them", node.ForeignPDSH},
	{"env-comment", "on the head: ~/.deepspeed_env begins with a comment", func(n node) (undo, error) { return n.Configure("/root/.deepspeed_env", "# NCCL\nNCCL_DEBUG=INFO\n") }},
}, gpuFaults()...)
