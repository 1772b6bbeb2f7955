// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"preflight/drill/outcome"
	"preflight/facts"
)

// call is one connection attempt to one port of a peer. It never blocks. Its owner calls ready when
// there are events on fd, and expired when the time of the call is over.
type call struct {
	reach *reach
	path  facts.Path // what is known so far; without an outcome, the path is good
	knock bool       // the call only connects
	young bool       // the call has waited for less than callPatience
	// doubted is the call that this call repeats step by step. second is the call that repeats this
	// call.
	doubted, second *call

	fd        int // -1 for none
	began     time.Time
	end       time.Time
	connected bool
	unsent    []byte
	answer    []byte // the part that has arrived, while the answer is incomplete
	answered  bool
	received  bool  // the peer has received the caller's whole payload
	missing   int   // how many bytes of the peer's payload are missing
	err       error // for a call that repeats another: the error that ended it
}

// dial starts to connect, from the source address or the interface if one is set.
func (c *call) dial(from *Calls, address string, port int) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("the peer's address %q is not an IP address", address)
	}
	name, family, err := sockaddr(netip.AddrPortFrom(ip, uint16(port)))
	if err != nil {
		return err
	}
	if c.fd, err = openSocket(family); err != nil {
		return err
	}
	if err = from.bind(c.fd); err != nil {
		c.path.Outcome = facts.PathBroken // nothing was sent, whatever error the kernel returns
		return err
	}
	err = unix.Connect(c.fd, name)
	if err == unix.EADDRNOTAVAIL && from.From == "" && bindOutside(c.fd, family) == nil {
		err = unix.Connect(c.fd, name)
	}
	if err == unix.EINPROGRESS || err == unix.EINTR {
		return nil
	}
	return c.refused(err)
}

// bindOutside binds a socket to a port that the kernel would not choose. If the kernel has very few
// ports, the launch may find enough of them alone, but not while this test also takes some.
func bindOutside(fd, family int) (err error) {
	for range 16 {
		port := defaultLow + rand.N(defaultHigh-defaultLow+1)
		if err = unix.Bind(fd, &unix.SockaddrInet4{Port: port}); family == unix.AF_INET6 {
			err = unix.Bind(fd, &unix.SockaddrInet6{Port: port})
		}
		if err != unix.EADDRINUSE {
			break
		}
	}
	return err
}

// bind binds a socket to the interface, and to the source address if one is set.
func (c *Calls) bind(fd int) error {
	if c.From == "" {
		return bindTo(fd, c.Interface)
	}
	own, err := netip.ParseAddr(c.From)
	if err != nil {
		return fmt.Errorf("its own address %q is not an IP address", c.From)
	}
	name, _, err := sockaddr(netip.AddrPortFrom(own, 0))
	if err != nil {
		return err
	}
	return errors.Join(bindTo(fd, c.Interface), os.NewSyscallError("bind", unix.Bind(fd, name)))
}

// refused wraps a connect error in package net's form, which outcomeOf expects.
func (c *call) refused(err error) error {
	if err == nil {
		return nil
	}
	ip, _ := netip.ParseAddr(c.path.To) // dial has already parsed this address
	to := net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(c.path.Port)))
	return &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.NewSyscallError("connect", err)}
}

// pending returns the socket's pending error.
func (c *call) pending() error {
	number, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && number != 0 {
		err = unix.Errno(number)
	}
	return err
}

// ended holds the events of a connection that is over, possibly with unread data.
const ended = unix.EPOLLERR | unix.EPOLLHUP | unix.EPOLLRDHUP

func (c *call) ready(calls *calling, events uint32) {
	if !c.connected {
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			calls.finish(c, c.refused(cmp.Or(c.pending(), error(unix.ECONNRESET))))
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		if c.knock {
			c.opens()
			calls.finish(c, nil)
			return
		}
		if err := c.speak(calls); err != nil {
			calls.finish(c, err)
			return
		}
	}
	c.send()
	if events&(unix.EPOLLIN|ended) == 0 {
		return
	}
	for {
		n, err := unix.Read(c.fd, calls.buffer)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return
		case err != nil:
			calls.finish(c, os.NewSyscallError("read", err))
			return
		case n == 0:
			c.path.Outcome = facts.PathReset
			calls.finish(c, errHungUp)
			return
		}
		if err := c.receive(calls, calls.buffer[:n]); err != nil || c.complete() {
			calls.finish(c, err)
			return
		}
		if n < len(calls.buffer) && events&ended == 0 {
			return // there was no more data; another event will follow
		}
	}
}

// opens stores the result of a knock whose connection is established.
func (c *call) opens() {
	c.connected, c.path.Seconds = true, time.Since(c.began).Seconds()
}

// speak sends everything at once or, step by step, only the hello. If the connection is not
// established yet, speak sends nothing and returns no error.
func (c *call) speak(calls *calling) error {
	mss := segment(c.fd)
	text := calls.opening.forSegment(mss)
	c.unsent = nil
	if c.doubted != nil {
		text, c.unsent = text[:calls.opening.prefixLength], text[calls.opening.prefixLength:]
	}
	n, err := unix.Write(c.fd, text)
	if err == unix.EAGAIN || err == unix.EINTR {
		return nil
	}
	if err != nil {
		return c.refused(err)
	}
	if c.doubted == nil {
		c.unsent = text[n:]
		c.end = calls.now.Add(exchangeTime)
	}
	c.connected, c.path.MSS = true, mss
	return nil
}

// send continues to send. Step by step, it sends only after the answer has arrived. The next read
// reports any write error.
func (c *call) send() {
	if len(c.unsent) == 0 || c.doubted != nil && !c.answered {
		return
	}
	if n, err := unix.Write(c.fd, c.unsent); err == nil {
		c.unsent = c.unsent[n:]
	}
}

func (c *call) complete() bool { return c.received && c.missing <= 0 }

func (c *call) receive(calls *calling, b []byte) error {
	if !c.answered {
		if len(c.answer) > 0 {
			b = append(c.answer, b...)
		}
		answer, rest, err := decode(b, calls.key, meshAnswer)
		switch {
		case errors.Is(err, errShort):
			c.answer = bytes.Clone(b)
			return nil
		case err != nil:
			c.path.Outcome = facts.PathStranger
			return err
		case answer.name != c.path.Peer:
			c.path.Outcome, c.path.Answered = facts.PathMisdirected, answer.name
			return fmt.Errorf("%s answered", answer.name)
		}
		c.answered, b = true, rest
		c.missing = int(min(answer.amount, maxPayload))
		c.path.Seconds = time.Since(c.began).Seconds()
		c.send()
	}
	if !c.received && len(b) > 0 {
		if b[0] != received {
			c.path.Outcome = facts.PathStranger
			return errStranger
		}
		c.received, b = true, b[1:]
	}
	c.missing -= len(b)
	return nil
}

// expired returns the error of a call that has taken too long.
func (c *call) expired(now time.Time) error {
	switch {
	case now.Before(c.end):
		c.path.Outcome = facts.PathUntried
		return outcome.ErrNoTime
	case !c.connected:
		// The kernel treats a router's answer to a packet only as a hint: it stores the error and
		// keeps trying.
		if err := c.pending(); err != nil {
			return c.refused(err)
		}
		return c.refused(unix.ETIMEDOUT)
	case c.second != nil && c.second.connected:
		return c.explained(now)
	case !c.answered:
		c.path.Outcome = facts.PathSilent
		return errors.New("connected, then no answer")
	case !c.received:
		c.path.Outcome, c.path.Stuck = facts.PathBlackhole, "to"
		return errors.New("it answers, but full packets to it are lost")
	}
	c.path.Outcome, c.path.Stuck = facts.PathBlackhole, "from"
	return errors.New("it answers, but full packets from it are lost")
}

// explained returns the error of a call without an answer. The error says how far the second call
// got. Even if the second call was answered, the first call was not.
func (c *call) explained(now time.Time) error {
	second := c.second
	if second.complete() {
		c.path.Outcome = facts.PathSilent
		return errors.New("connected, then no answer, although a second call got one")
	}
	err := second.err
	if err == nil { // the second call is still waiting
		err = second.expired(now)
	}
	c.path.Outcome, c.path.Answered, c.path.Stuck = second.path.Outcome, second.path.Answered, second.path.Stuck
	return err
}

func (c *call) inDoubt(now time.Time) bool {
	return c.connected && c.doubted == nil && c.second == nil && !now.Before(c.end.Add(-stepsTime))
}

// hangUp closes the connection at once, without leaving any state in the kernel.
func (c *call) hangUp() {
	if c.fd < 0 {
		return
	}
	if c.connected {
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	unix.Close(c.fd)
	c.fd = -1
}
