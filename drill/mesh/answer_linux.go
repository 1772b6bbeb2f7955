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
	fd     int
	hello  []byte // as far as it has come, while it is not complete
	known  bool   // has said hello
	served bool   // has been sent all, and ends the call when it has received it
	theirs int    // bytes of its payload that are still to come
	unsent []byte // of ours
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
				time.Sleep(time.Millisecond) // nothing of ours to give back
				return
			}
		case unix.EINTR, unix.ECONNABORTED: // it hung up before it was taken
		default:
			return
		}
	}
}

// makeRoom ends the calls that nobody waits for here or, without any, one of a caller that has not said
// who it is. It is false when there is none.
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

// attend goes on with a call as far as its socket lets it. A stranger is sent
// nothing.
func (l *Listener) attend(ctx context.Context, c *caller) {
	if c.served {
		l.hangUp(c)
		return
	}
	for c.theirs > 0 || !c.known {
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
		// Hanging up is left to the caller, whose reset is the last packet of the
		// call. Ours would be one more.
		c.served = len(c.unsent) == 0
	case unix.EAGAIN:
	default: // the caller will miss what could not be written
		l.hangUp(c)
	}
}

// receive takes what a caller says. Who sent all at once is answered all at once, which
// is left unsent; who did not is sent what it is due: the answer after its hello,
// and received after its payload. It is false when the call is not the mesh's,
// or no more.
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
		c.theirs = int(min(hello.amount, maxPayload))
		c.unsent = bytes.Clone(l.answer.of(segment(c.fd)))
		if len(b) >= c.theirs {
			c.theirs = 0
			return true
		}
		head := l.answer.head
		due, c.unsent = c.unsent[:head:head], c.unsent[head+1:]
	}
	if c.theirs -= len(b); c.theirs <= 0 {
		due = append(due, received)
	}
	// A packet of its own, and the first or second of the connection, for which
	// there is always room.
	_, _ = unix.Write(c.fd, due)
	return true
}

const (
	// longestSpan bounds what a caller can ask for.
	longestSpan = time.Minute
	// countingBuffer is what one stream is read into: large, because each read
	// costs a system call and a wake-up.
	countingBuffer = 256 << 10
)

// handOver has a throughput call served by a goroutine of its own, because it
// would keep this one from everything else.
func (l *Listener) handOver(ctx context.Context, c *caller, span time.Duration) {
	delete(l.callers, c.fd)
	// A descriptor that was never watched is none the worse for it.
	_ = unix.EpollCtl(l.poll.fd, unix.EPOLL_CTL_DEL, c.fd, nil)
	file := os.NewFile(uintptr(c.fd), "throughput")
	conn, err := net.FileConn(file)
	file.Close() // conn has a descriptor of its own
	if err != nil {
		return // the caller misses the answer
	}
	l.counting.Go(func() {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		l.count(conn, min(max(span, 0), longestSpan))
	})
}

// count answers a throughput call: with the rate in bit/s at which payload
// arrived in the time the caller wants, which starts with its hello.
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
	// Closing on what is still under way would reset the connection, and the
	// answer with it.
	_, _ = io.Copy(io.Discard, conn)
}
