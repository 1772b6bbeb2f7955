package drill

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

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
	l.forget(c)
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
