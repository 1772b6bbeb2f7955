// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ssh

import (
	"errors"
	"net"
)

// packetsOf reports nothing. Launches start from Linux. On other systems, a hanging connection
// hangs until its deadline.
func packetsOf(*net.TCPConn) (packets, error) { return packets{}, errors.ErrUnsupported }
