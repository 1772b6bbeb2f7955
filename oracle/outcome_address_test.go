// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// addressFaults are faults of names and addresses that DeepSpeed, torch and gloo look up.
var addressFaults = []planted{}
