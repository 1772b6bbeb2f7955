// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type caller struct {
	fd        int
	hello     []byte // the part that has arrived, while the hello is incomplete
	known     bool   // the caller's hello was valid
	served    bool   // everything was sent; the caller ends the call when it has received it
	toReceive int    // how many bytes of the caller's payload are still missing
	unsent    []byte // bytes that the listener still has to send
}

func (l *Listener) accept(ctx context.Context, socket int) {
	for {
		fd, _, err := unix.Accept4(socket, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			c := &caller{fd: fd}
			l.callers[fd] = c
			l.attend(ctx, c)
			if l.callers[fd] == c && !c.served && l.poll.watch(fd, comesOrGoes) != nil {
				l.hangUp(c)
			}
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			if !l.makeRoom() {
				time.Sleep(time.Millisecond) // no caller can be closed to make room
				return
			}
		case unix.EINTR, unix.ECONNABORTED: // the caller closed the connection before it was accepted
		default:
			return
		}
	}
}

// makeRoom closes the calls that need nothing more from this listener. If there are none, it closes
// one call whose caller has not identified itself. It returns false if there is no such call
// either.
func (l *Listener) makeRoom() (made bool) {
	for _, c := range l.callers {
		if c.served {
			l.hangUp(c)
			made = true
		}
	}
	for _, c := range l.callers {
		if !made && !c.known {
			l.hangUp(c)
			made = true
		}
	}
	return made
}

func (l *Listener) hangUp(c *caller) {
	unix.Close(c.fd)
	delete(l.callers, c.fd)
}

// attend continues a call until its socket would block. It sends nothing to a stranger.
func (l *Listener) attend(ctx context.Context, c *caller) {
	if c.served {
		l.hangUp(c)
		return
	}
	for c.toReceive > 0 || !c.known {
		n, err := unix.Read(c.fd, l.buffer)
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err != nil || n == 0 {
			l.hangUp(c)
			return
		}
		if !l.receive(ctx, c, l.buffer[:n]) {
			return
		}
	}
	switch n, err := unix.Write(c.fd, c.unsent); err {
	case nil:
		c.unsent = c.unsent[n:]
		// The caller must close the connection: its reset is the last packet of the call. If the
		// listener closed the connection, one more packet would be sent.
		c.served = len(c.unsent) == 0
	case unix.EAGAIN:
	default: // the caller will notice that it did not receive everything
		l.hangUp(c)
	}
}

// receive handles what a caller sends. It returns false if the call does not, or no longer, belong
// to the mesh.
//
// A caller that sent everything at once gets the whole answer at once, which receive puts into
// unsent. Any other caller gets each part when it is due: the answer after its hello, and received
// after its payload.
func (l *Listener) receive(ctx context.Context, c *caller, b []byte) bool {
	var due []byte
	if !c.known {
		if len(c.hello) > 0 {
			b = append(c.hello, b...)
		}
		hello, rest, err := decode(b, l.key, meshHello, throughputHello)
		switch {
		case errors.Is(err, errShort):
			c.hello = bytes.Clone(b)
			return true
		case err != nil:
			l.hangUp(c)
			return false
		}
		c.known, b = true, rest
		if hello.kind == throughputHello {
			l.handOver(ctx, c, time.Duration(hello.amount))
			return false
		}
		c.toReceive = int(min(hello.amount, maxPayload))
		c.unsent = bytes.Clone(l.answer.forSegment(segment(c.fd)))
		if len(b) >= c.toReceive {
			c.toReceive = 0
			return true
		}
		head := l.answer.prefixLength
		due, c.unsent = c.unsent[:head:head], c.unsent[head+1:]
	}
	if c.toReceive -= len(b); c.toReceive <= 0 {
		due = append(due, received)
	}
	// This message is in a separate packet. It is one of the first two packets of the connection,
	// for which the send buffer always has room.
	_, _ = unix.Write(c.fd, due)
	return true
}

const (
	// longestSpan limits the time span that a caller can ask for.
	longestSpan = time.Minute
	// countingBuffer is the size of the read buffer of one stream. It is large because each read
	// costs a system call and a wake-up.
	countingBuffer = 256 << 10
)

// handOver serves a throughput call in a separate goroutine, because the call would block this one.
func (l *Listener) handOver(ctx context.Context, c *caller, span time.Duration) {
	delete(l.callers, c.fd)
	// This call does no harm if the descriptor was never watched.
	_ = unix.EpollCtl(l.poll.fd, unix.EPOLL_CTL_DEL, c.fd, nil)
	file := os.NewFile(uintptr(c.fd), "throughput")
	conn, err := net.FileConn(file)
	file.Close() // conn has a separate descriptor
	if err != nil {
		return // the caller will notice the missing answer
	}
	onThreads()
	l.counting.Go(func() {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		l.count(conn, min(max(span, 0), longestSpan))
	})
}

// count answers a throughput call with the rate in bit/s at which payload arrived. The caller sets
// span, which starts with the caller's hello.
func (l *Listener) count(conn net.Conn, span time.Duration) {
	began := time.Now()
	_ = conn.SetDeadline(began.Add(span))
	buffer := make([]byte, countingBuffer)
	var arrived int64
	var err error
	for n := 0; err == nil; arrived += int64(n) {
		n, err = conn.Read(buffer)
	}
	rate := float64(arrived) * 8 / time.Since(began).Seconds()
	_ = conn.SetDeadline(time.Now().Add(exchangeTime))
	_, _ = conn.Write(message{kind: throughputAnswer, amount: uint64(rate), name: l.answer.node}.encode(l.key))
	// If the connection were closed while data is in transit, it would be reset and the answer
	// lost.
	_, _ = io.Copy(io.Discard, conn)
}
