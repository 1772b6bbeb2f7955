// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// installationFaults are faults of installations that are incomplete, hidden or cannot compile.
var installationFaults = []planted{}
