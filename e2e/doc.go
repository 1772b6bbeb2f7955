// SPDX-License-Identifier: Apache-2.0

// Package e2e tests whole runs. The cluster_* files run the real binary on hosts in Linux
// namespaces, each with a real sshd, and cause faults there. They need root. The fleet_* files run
// the Go API against up to 10,000 SSH servers in the test process. They need neither root nor
// namespaces.
//
// It contains only tests.
package e2e
