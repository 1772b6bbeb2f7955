// SPDX-License-Identifier: Apache-2.0

// Package testhosts simulates clusters: machines that accept SSH and have faults, for tests, the
// demo and benchmarks.
//
// There are two kinds of clusters. A [Fleet] is a set of SSH servers in the test process. A Fleet
// needs no root and starts thousands of hosts in a moment. Each host can have a [Fault]. A
// [Cluster] is a set of Linux namespaces, each with Debian's own sshd. A Cluster needs root and has
// up to several hundred nodes. Every node has its own address, interfaces, process table, /dev/shm,
// home and /etc, so tests cause faults with iptables, mount and kill, as on a real machine. Use a
// Fleet where possible. Use a Cluster where the test needs a kernel and a real sshd.
//
// A machine with GPUs is a value of package gpus. [Node.SetDriver] makes a node show these GPUs, so
// tests of broken GPUs need no GPU.
//
// Both kinds give the client its own home, with a key and a correct known_hosts. Host keys are
// verified. The home directory of the person who runs the test is neither read nor written. Both
// kinds need Linux. They remove their processes, listeners, mounts and files when they end.
//
// The package does not import other packages of preflight. It does not decide what is healthy,
// because this is the caller's task. It uses no network except the loopback interface and the
// network that it creates.
package testhosts
