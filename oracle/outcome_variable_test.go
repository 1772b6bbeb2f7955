// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// variableFaults are faults of environment variables, users and directories.
var variableFaults = []planted{}
