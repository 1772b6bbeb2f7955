// SPDX-License-Identifier: Apache-2.0

// Package testhosts stands in for clusters: machines that answer to SSH and
// have something wrong with them, for tests, for the demo and for measuring.
//
// There are two kinds. A [Fleet] is a set of SSH servers inside the test's own
// process: no root needed, thousands of hosts in a moment, each misbehaving
// as its [Fault] says. A [Cluster] is a set of Linux
// namespaces with Debian's own sshd in each: root needed, a handful to some
// hundred nodes, every node with its own address, interfaces, process table,
// /dev/shm, home and /etc, so that faults are planted with the same iptables,
// mount and kill an administrator would use. What can be shown with a Fleet
// should be; a Cluster is for what only a kernel and a real sshd can do.
//
// A machine with GPUs is a value of package gpus. A node shows it ([Node.SetDriver]), so
// that nobody needs a GPU to meet a sick one.
//
// Both kinds hand their client a home of its own, with a key and a known_hosts
// that is right: host keys are checked here, never bypassed, and the home of the
// person who runs the test is neither read nor written. Both need Linux, and
// take everything with them when they end: processes, listeners, mounts, files.
//
// The package refuses to know anything of preflight. It imports none of its
// packages and judges nothing; a node that fails a check is the caller's
// finding. It reaches no network but loopback and the one it makes itself.
package testhosts
