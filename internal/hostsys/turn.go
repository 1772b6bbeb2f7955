// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"fmt"
	"strconv"
)

// Taken is the error of a turn that another preflight has.
type Taken struct {
	PID int `json:"pid,omitempty"` // 0 when it cannot be seen from here
	UID int `json:"uid"`
}

func (t *Taken) Error() string {
	if t.PID == 0 {
		return fmt.Sprintf("taken by another preflight (uid %d)", t.UID)
	}
	return fmt.Sprintf("taken by another preflight (pid %d, uid %d)", t.PID, t.UID)
}

// TurnAtThroughput is the turn of whoever sends from a machine as fast as it goes.
const TurnAtThroughput = "throughput"

// TurnAtMeasuring is the turn of a run whose nodes all send, on the first of them.
const TurnAtMeasuring = "measuring"

// TurnAtPort is the turn of whoever listens on a TCP port, on all addresses.
func TurnAtPort(port int) string { return "port/" + strconv.Itoa(port) }
