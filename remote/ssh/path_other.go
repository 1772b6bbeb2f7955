// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ssh

import (
	"errors"
	"net"
)

// packetsOf has nothing to tell: launches start from Linux, and elsewhere a
// connection that hangs hangs until its deadline.
func packetsOf(*net.TCPConn) (packets, error) { return packets{}, errors.ErrUnsupported }
