// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// networkFaults are faults of routes, firewalls and resolvers.
var networkFaults = []planted{}
