// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import (
	"sync"
	"time"
)

// kernelView is for Linux alone: elsewhere it shows only by coming late that a process is
// behind.
type kernelView struct{}

func (*kernelView) since() (ran, waited time.Duration) { return 0, 0 }

// children are the programs that Run has under way, by pid.
var children sync.Map
