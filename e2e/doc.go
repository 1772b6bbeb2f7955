// SPDX-License-Identifier: Apache-2.0

// Package e2e tests whole runs. The cluster_* files run the real binary on hosts in Linux
// namespaces and cause faults on these hosts. Each host has a real sshd. These tests need root. The
// fleet_* files run the Go API against up to 10,000 SSH servers in the test process. These tests
// need neither root nor namespaces.
//
// The package contains only tests.
package e2e
