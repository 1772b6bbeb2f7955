// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// jobFaults are faults of other jobs, containers and limits of the machine.
var jobFaults = []planted{}
