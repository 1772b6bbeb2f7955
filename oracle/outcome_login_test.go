// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// loginFaults are faults of login shells, sshd and what stands between ssh and the command.
var loginFaults = []planted{}
