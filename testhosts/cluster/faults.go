//go:build linux

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

type fault struct {
	name, does string
	plant      func(context.Context, *testhosts.Node) (testhosts.Undo, error)
}

// plain makes a fault of a method that needs nothing but its node.
func plain(method func(*testhosts.Node) (testhosts.Undo, error)) func(context.Context, *testhosts.Node) (testhosts.Undo, error) {
	return func(_ context.Context, n *testhosts.Node) (testhosts.Undo, error) { return method(n) }
}

// secondNIC gives a node an interface with an address in 10.78.0.0/16 that ends
// like its own, on the named network, or on one that nobody else is on.
func secondNIC(name, network string, first bool) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) {
		prefix := strings.Replace(n.Address, "10.77.", "10.78.", 1) + "/16"
		return n.AddNIC(testhosts.NIC{Name: name, Prefix: prefix, Network: network, First: first})
	}
}

// gpuFaults give a node GPUs and a driver, in every way that there is one.
func gpuFaults() []fault {
	var all []fault
	for _, scenario := range gpus.Scenarios {
		all = append(all, fault{scenario.Name, scenario.Does, plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetDriver(scenario.GPUs()) })})
	}
	return all
}

var faults = append([]fault{
	{"killed", "sshd and all else is dead: connections are refused", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Kill(ctx) }},
	{"frozen", "every process is stopped: connections are accepted, nothing follows", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Freeze(ctx) }},
	{"dropped", "the firewall drops everything", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Drop(ctx) }},
	{"ports-dropped", "the firewall drops connections to all ports but 22", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop(ctx, "1:21", "23:65535")
	}},
	{"ephemeral-dropped", "the firewall drops connections to 32768-60999, where ranks listen", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop(ctx, testhosts.Ephemeral)
	}},
	{"ephemeral-refused", "the firewall answers connections to 32768-60999 with a reset", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Reject(ctx, testhosts.Ephemeral)
	}},
	{"ephemeral-prohibited", "the firewall answers connections to 32768-60999 with host-prohibited", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Prohibit(ctx, testhosts.Ephemeral)
	}},
	{"ephemeral-reset", "connections to 32768-60999 are accepted, then reset", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.ResetAfterAccept(ctx, testhosts.Ephemeral)
	}},
	{"one-way", "the firewall drops what the first other node starts to 32768-60999", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		peers := n.Peers()
		if len(peers) == 0 {
			return nil, errors.New("one-way needs a second node")
		}
		return n.DropFrom(ctx, peers[0], testhosts.Ephemeral)
	}},
	{"unrouted", "no route to the host", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Unroute(ctx) }},
	{"no-routes", "no route to the other nodes, only to the head", plain((*testhosts.Node).LoseRoutes)},
	{"mtu", "eth0 has MTU 1400, all others 1500", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(1400) })},
	{"mtu-jumbo", "eth0 has MTU 9000, all others and the switch 1500", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(9000) })},
	{"narrow-path", "packets above 1300 bytes vanish", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.NarrowPath(1300) })},
	{"narrow-peers", "packets above 1300 bytes vanish when they come from other nodes", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.NarrowPeers(ctx, 1300)
	}},
	{"nic-name", "eth0 is called enp4s0", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.RenameNIC("enp4s0") })},
	{"docker0", "there is a docker0 with 172.17.0.1", plain((*testhosts.Node).AddDocker0)},
	{"docker0-first", "there is a docker0 with 172.17.0.1, and it precedes eth0", plain((*testhosts.Node).AddDocker0First)},
	{"nic-isolated", "a second NIC, mgmt0, is up and reaches nobody", plain(secondNIC("mgmt0", "", false))},
	{"nic-isolated-first", "the same, and it precedes eth0", plain(secondNIC("mgmt0", "", true))},
	{"nic-second", "a second NIC, mgmt0, on a network of all nodes that have one", plain(secondNIC("mgmt0", "mgmt", false))},
	{"vpn-first", "a tailscale0 that reaches nobody precedes eth0", plain(secondNIC("tailscale0", "", true))},
	{"loopback-name", "its own name resolves to 127.0.1.1", plain((*testhosts.Node).LoopbackHostname)},
	{"wrong-hosts", "w1 resolves to an address nobody has", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.WrongHosts("w1", "10.77.250.1") })},
	{"no-name", "w1 does not resolve", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.ForgetName("w1") })},
	{"shm-small", "/dev/shm has 64 MiB", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(64 << 20) })},
	{"shm-read-only", "/dev/shm cannot be written", plain((*testhosts.Node).ReadOnlySHM)},
	{"shm-leftover", "a killed run left a segment in /dev/shm", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.LeftoverSegment("nccl-a1B2c3", 32<<20, 48*time.Hour)
	})},
	{"home-read-only", "root's home is mounted read-only", plain((*testhosts.Node).ReadOnlyHome)},
	{"home-noexec", "root's home is mounted noexec", plain((*testhosts.Node).NoExecHome)},
	{"home-full", "root's home has no byte free", plain((*testhosts.Node).FullHome)},
	{"noisy-shell", "~/.bashrc prints a line", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.NoisyShell("Welcome to the cluster!") })},
	{"no-key", "the key is not authorized any more", plain((*testhosts.Node).RemoveAuthorizedKey)},
	{"no-private-key", "it cannot log in to other nodes", plain((*testhosts.Node).RemovePrivateKey)},
	{"head-only", "it lets the head in and no other node", plain((*testhosts.Node).AdmitHeadOnly)},
	{"host-key-unknown", "the other nodes do not know its host key", plain((*testhosts.Node).UnknownToPeers)},
	{"no-login", "the login shell is nologin", plain((*testhosts.Node).NoLoginShell)},
	{"locked", "the account is locked", plain((*testhosts.Node).LockAccount)},
	{"host-key", "the host key has changed", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.ChangeHostKey(ctx) }},
	{"memlock", "64 KiB of locked memory, set on sshd itself: limits.conf has no say here", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Limit(ctx, "memlock", 64<<10)
	}},
	{"open-files", "256 open files, set on sshd itself: limits.conf has no say here", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Limit(ctx, "nofile", 256)
	}},
	{"port-held", "something listens on 29500", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.HoldPort(29500) })},
	{"package", "another version of protobuf than elsewhere", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.OtherPackage(ctx, "protobuf", "3.20.1")
	}},
	{"torch-cuda", "a torch for CUDA 12.4, as far as its files say: no fault by itself", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.CUDATorch(ctx, "2.5.1+cu124", "12.4")
	}},
	{"nccl-conf", "/etc/nccl.conf names an interface that is not there", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.NCCLConf("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n")
	})},
	{"workdir-missing", testhosts.JobDirectory + ", which every machine has, is not there", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Hide(testhosts.JobDirectory)
	})},
	{"script-differs", testhosts.JobDirectory + "/train.py has a line more", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.ChangeFile(testhosts.JobDirectory+"/train.py", func(text string) string { return text + "# from yesterday\n" })
	})},
	{"python-missing", "there is no /usr/bin/python3", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.Hide("/usr/bin/python3") })},
	{"pdsh-foreign", "on the head: pdsh's modules belong to nobody, and it refuses them", plain((*testhosts.Node).ForeignPDSH)},
	{"env-comment", "on the head: ~/.deepspeed_env begins with a comment", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.DeepSpeedEnv("# NCCL\nNCCL_DEBUG=INFO\n")
	})},
}, gpuFaults()...)
