// SPDX-License-Identifier: Apache-2.0

// Package e2e tests whole runs. The cluster_* files start the real binary on hosts in Linux namespaces, each
// with a real sshd, and plant faults there; they need root. The fleet_* files run the Go API against SSH
// servers inside the test process, up to 10,000 of them; they need neither.
//
// It has nothing but tests.
package e2e
