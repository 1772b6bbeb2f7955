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
	// onTheWay is how many files reaching a node has open at most, beside what its
	// connection keeps: the questions to name servers and what says which, a key or a
	// known_hosts file, the second connection to a node that hangs.
	onTheWay = 8
	// spareFiles are for the rest of a run: listeners and children of its own, and what
	// it writes.
	spareFiles = 16
)

// Fit is how many nodes may be on their way at once, most at most, for this process to
// have the files open that it takes. Those that stay connected need theirs all together.
// The error says that even one at a time they do not fit: nobody is to be called then.
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

// Short is the failure of a call that this machine itself had too little of something for,
// nil where err says anything else.
func Short(stage Stage, err error) *Error {
	of := hostsys.Shortage(err)
	if of == "" {
		return nil
	}
	if call, is := errors.AsType[*os.SyscallError](err); is {
		err = call // without the node's address, which would keep what is said of many apart
	}
	return &Error{Stage: stage, Cause: HeadLimit, Err: fmt.Errorf("it has run out of %s (%w)", of, err)}
}
