// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package host

import (
	"preflight/facts"
	"preflight/probe/machine"
)

// These collectors need Linux's system calls.
var (
	CollectHost   = machine.Elsewhere[facts.Host]
	CollectLimits = machine.Elsewhere[facts.Limits]
	CollectMemory = machine.Elsewhere[facts.Memory]
	CollectDisk   = machine.Elsewhere[facts.Disk]
	CollectSHM    = machine.Elsewhere[facts.SHM]
)
