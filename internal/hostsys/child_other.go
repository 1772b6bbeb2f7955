// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import "syscall"

// dieWithUs is for Linux alone: elsewhere a child outlives us if it wants to.
func dieWithUs(*syscall.SysProcAttr) {}
