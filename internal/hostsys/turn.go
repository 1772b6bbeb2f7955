// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
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

// Turn is the right to what only one preflight can have at a time on a machine.
//
// It is a listening socket of the abstract namespace (unix(7)), of which nobody
// takes a call: there is one of a name in a network namespace, as with ports, for
// all users and containers there; its holder is vouched for by the kernel; and it
// ends with its process, leaving nothing in any file system.
type Turn struct{ socket net.Listener }

// retakeTime is the pause before a turn is asked for again that was neither free
// nor to be waited for: it ended between the two, or too many wait for it.
const retakeTime = 5 * time.Millisecond

// TakeTurn waits for a turn, until ctx ends: the error is a *Taken then. waited is
// 0 where nobody had it. Where the machine allows no such sockets everybody has the
// turn.
func TakeTurn(ctx context.Context, of string) (turn *Turn, waited time.Duration, err error) {
	began := time.Now()
	for {
		socket, err := net.Listen("unix", turnName(of))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return &Turn{socket}, waited, nil
		}
		taken := awaitTurn(ctx, of)
		waited = time.Since(began)
		if ctx.Err() != nil {
			return nil, waited, taken
		}
	}
}

// TryTurn takes a turn, or says who has it, without waiting; whoever has it can tell
// that it was asked for.
func TryTurn(of string) (*Turn, *Taken) {
	socket, err := net.Listen("unix", turnName(of))
	if errors.Is(err, syscall.EADDRINUSE) {
		return &Turn{}, HasTurn(of)
	}
	return &Turn{socket}, nil
}

// End gives the turn to whoever waits for it.
func (t *Turn) End() {
	if t.socket != nil {
		t.socket.Close()
	}
}

// WasAskedFor is whether another preflight has wanted the turn meanwhile.
func (t *Turn) WasAskedFor() bool {
	if t.socket == nil {
		return false
	}
	_ = t.socket.(*net.UnixListener).SetDeadline(time.Now().Add(time.Millisecond)) // a time in the past would not look at all
	call, err := t.socket.Accept()
	if err != nil {
		return false
	}
	call.Close()
	return true
}

// HasTurn is the preflight that has a turn, nil for none.
func HasTurn(of string) *Taken {
	call, err := net.Dial("unix", turnName(of))
	if err != nil {
		return nil
	}
	defer call.Close()
	return holder(call)
}

func turnName(of string) string { return "@preflight/" + of }

// awaitTurn returns when the holder of a turn, which it names, has ended it.
func awaitTurn(ctx context.Context, of string) *Taken {
	var dialer net.Dialer
	call, err := dialer.DialContext(ctx, "unix", turnName(of))
	if err != nil {
		select {
		case <-time.After(retakeTime):
		case <-ctx.Done():
		}
		return &Taken{}
	}
	defer call.Close()
	taken := holder(call)
	defer context.AfterFunc(ctx, func() { call.Close() })()
	_, _ = call.Read(make([]byte, 1)) // nothing is sent: it fails at the end
	return taken
}
