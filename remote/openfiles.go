// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"preflight/internal/hostsys"
)

const (
	// onTheWay is the maximum number of files that are open while a node is being reached, besides
	// those of its connection. They are the queries to name servers, files that are read (a key,
	// known_hosts), and the second connection to a node that hangs.
	onTheWay = 8
	// spareFiles is the number of files left for the rest of a run: its own listeners and children,
	// and the files that it writes.
	spareFiles = 16
)

// Fit returns how many nodes may be reached at the same time without exceeding this process's limit
// on open files, but no more than most. If stay is set, the files of all connected nodes count
// together. The error means that not even one node at a time fits. No node may be reached then.
func (c *Client) Fit(names []string, stay bool, most int) (atOnce int, err *Error) {
	open, limit, ok := hostsys.OpenFiles()
	if !ok || len(names) == 0 {
		return most, nil
	}
	kept := c.carrier.Files(names)
	each := onTheWay
	if !stay {
		each, kept = onTheWay+(kept+len(names)-1)/len(names), 0
	}
	need := open + kept + spareFiles + each
	if need > limit {
		return 1, &Error{
			Stage: StageConnect, Cause: HeadLimit,
			Detail: map[string]string{"files": strconv.Itoa(1 << bits.Len(uint(need)))},
			Err:    fmt.Errorf("its limit on open files is %d, and %d nodes need %d", limit, len(names), need),
		}
	}
	return min(most, 1+(limit-need)/each), nil
}

// Short returns the failure if err means that the launching machine has reached a limit, nil for
// other errors.
func Short(stage Stage, err error) *Error {
	of := hostsys.Shortage(err)
	if of == "" {
		return nil
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call // without the node's address, so that equal failures of many nodes are grouped
	}
	return &Error{Stage: stage, Cause: HeadLimit, Err: fmt.Errorf("it has run out of %s (%w)", of, err)}
}
