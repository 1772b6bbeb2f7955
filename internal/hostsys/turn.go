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

// Taken is the error if another preflight holds the lock.
type Taken struct {
	PID int `json:"pid,omitempty"` // ID of the process that holds the lock; 0 if this process cannot see it
	UID int `json:"uid"`
}

func (t *Taken) Error() string {
	if t.PID == 0 {
		return fmt.Sprintf("taken by another preflight (uid %d)", t.UID)
	}
	return fmt.Sprintf("taken by another preflight (pid %d, uid %d)", t.PID, t.UID)
}

// TurnAtThroughput is the lock for sending at full speed from a machine.
const TurnAtThroughput = "throughput"

// TurnAtMeasuring is the lock for a run in which all nodes send data. The first node holds it.
const TurnAtMeasuring = "measuring"

// TurnAtPort returns the lock for listening on a TCP port on all addresses.
func TurnAtPort(port int) string { return "port/" + strconv.Itoa(port) }

// Turn is a lock on a resource of a machine that only one preflight can use at a time.
//
// It is a listening socket in the abstract namespace (unix(7)) that accepts no connections. As with
// ports, a name exists once per network namespace, for all users and containers in that namespace.
// The kernel reports the holder. The lock ends with its process and leaves nothing in any file
// system.
type Turn struct{ socket net.Listener }

// retakeTime is the pause before another try if the lock was held but could not be waited for. Then
// the lock was released in between, or too many processes wait for it.
const retakeTime = 5 * time.Millisecond

// TakeTurn waits for a lock until ctx ends. The error is then a *Taken. waited is 0 if the lock was
// free. If the machine does not allow such sockets, every process gets the lock.
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

// TryTurn takes a lock without waiting, or returns its holder. The holder can then see that another
// process has asked for the lock.
func TryTurn(of string) (*Turn, *Taken) {
	socket, err := net.Listen("unix", turnName(of))
	if errors.Is(err, syscall.EADDRINUSE) {
		return &Turn{}, HasTurn(of)
	}
	return &Turn{socket}, nil
}

// End releases the lock.
func (t *Turn) End() {
	if t.socket != nil {
		t.socket.Close()
	}
}

// WasAskedFor reports whether another preflight has asked for the lock since this process took it.
func (t *Turn) WasAskedFor() bool {
	if t.socket == nil {
		return false
	}
	_ = t.socket.(*net.UnixListener).SetDeadline(time.Now().Add(time.Millisecond)) // with a time in the past, Accept would not check at all
	call, err := t.socket.Accept()
	if err != nil {
		return false
	}
	call.Close()
	return true
}

// HasTurn returns the preflight that holds a lock, nil for none.
func HasTurn(of string) *Taken {
	call, err := net.Dial("unix", turnName(of))
	if err != nil {
		return nil
	}
	defer call.Close()
	return holder(call)
}

func turnName(of string) string { return "@preflight/" + of }

// awaitTurn waits until the holder of a lock has released it, and returns the holder.
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
	_, _ = call.Read(make([]byte, 1)) // the holder sends nothing: Read fails when it ends
	return taken
}
