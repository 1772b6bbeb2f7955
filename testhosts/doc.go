// SPDX-License-Identifier: Apache-2.0

// Package testhosts simulates clusters: machines that accept SSH and have faults, for tests, the
// demo and benchmarks.
//
// There are two kinds. A [Fleet] is a set of SSH servers in the test process. It needs no root,
// starts thousands of hosts in a moment, and each host can have a [Fault]. A [Cluster] is a set of
// Linux namespaces, each with Debian's own sshd. It needs root and has up to some hundred nodes.
// Every node has its own address, interfaces, process table, /dev/shm, home and /etc, so faults are
// caused with iptables, mount and kill, as on a real machine. Use a Fleet where possible, and a
// Cluster where the test needs a kernel and a real sshd.
//
// A machine with GPUs is a value of package gpus. A node shows it with [Node.SetDriver], so tests
// of broken GPUs need no GPU.
//
// Both kinds give the client its own home, with a key and a correct known_hosts. Host keys are
// verified, and the home of the person who runs the test is neither read nor written. Both need
// Linux, and remove their processes, listeners, mounts and files when they end.
//
// The package does not import other packages of preflight and does not decide what is healthy; this
// is the caller's task. It uses no network except loopback and the one that it creates.
package testhosts
