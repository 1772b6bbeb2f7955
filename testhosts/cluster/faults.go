//go:build linux

package main

import (
	"context"
	"time"

	"preflight/testhosts"
)

type fault struct {
	name, does string
	plant      func(context.Context, *testhosts.Node) (testhosts.Undo, error)
}

// plain makes a fault of a method that needs nothing but its node.
func plain(method func(*testhosts.Node) (testhosts.Undo, error)) func(context.Context, *testhosts.Node) (testhosts.Undo, error) {
	return func(_ context.Context, n *testhosts.Node) (testhosts.Undo, error) { return method(n) }
}

var faults = []fault{
	{"killed", "sshd and all else is dead: connections are refused", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Kill(ctx) }},
	{"frozen", "every process is stopped: connections are accepted, nothing follows", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Freeze(ctx) }},
	{"dropped", "the firewall drops everything", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Drop(ctx) }},
	{"ports-dropped", "the firewall lets nothing through but port 22", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop(ctx, "1:21", "23:65535")
	}},
	{"unrouted", "no route to the host", func(ctx context.Context, n *testhosts.Node) (testhosts.Undo, error) { return n.Unroute(ctx) }},
	{"mtu", "eth0 has MTU 1400, all others 1500", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(1400) })},
	{"narrow-path", "packets above 1300 bytes vanish", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.NarrowPath(1300) })},
	{"nic-name", "eth0 is called enp4s0", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.RenameNIC("enp4s0") })},
	{"docker0", "there is a docker0 with 172.17.0.1", plain((*testhosts.Node).AddDocker0)},
	{"loopback-name", "its own name resolves to 127.0.1.1", plain((*testhosts.Node).LoopbackHostname)},
	{"wrong-hosts", "w1 resolves to an address nobody has", plain(func(n *testhosts.Node) (testhosts.Undo, error) { return n.WrongHosts("w1", "10.77.250.1") })},
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
	{"nccl-conf", "/etc/nccl.conf names an interface that is not there", plain(func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.NCCLConf("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n")
	})},
}
