// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// openSocket returns a TCP socket that never blocks and never delays a small message. The socket
// sends its acknowledgements together with data, which saves a third of the packets of a call.
// Accepted connections inherit all these settings.
func openSocket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0))
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// bindTo makes a socket, and the connections that it accepts, send and receive only on one
// interface. If name is "", the socket stays unbound. Before Linux 5.7 this needed CAP_NET_RAW
// (net/core/sock.c, sock_bindtoindex_locked).
func bindTo(fd int, name string) error {
	if name == "" {
		return nil
	}
	return os.NewSyscallError("bind to "+name, unix.BindToDevice(fd, name))
}

// isConnected reports whether the connection of a socket is established. If the peer is near, that
// is so when connect returns.
func isConnected(fd int) bool {
	_, err := unix.Getpeername(fd)
	return err == nil
}

// segment returns a connection's current maximum segment size in bytes.
func segment(fd int) int {
	mss, _ := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	return mss
}

// sockaddr converts an address to the form that system calls need, and returns its family.
func sockaddr(to netip.AddrPort) (name unix.Sockaddr, family int, err error) {
	ip := to.Addr().Unmap()
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}, unix.AF_INET, nil
	}
	zone := 0
	if name := ip.Zone(); name != "" {
		if link, err := net.InterfaceByName(name); err == nil {
			zone = link.Index
		} else if zone, err = strconv.Atoi(name); err != nil {
			return nil, 0, errors.New("interface not found: " + name)
		}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), ZoneId: uint32(zone), Addr: ip.As16()}, unix.AF_INET6, nil
}

// poll waits for many sockets in one goroutine. The alternative is one goroutine per socket, with
// package net's overhead for each connection. In a full mesh of 128 nodes on two CPUs, that costs
// more time than the calls themselves.
type poll struct {
	file  *os.File // the kernel's poll set, which the Go runtime polls like a socket
	raw   syscall.RawConn
	fd    int
	until time.Time
	ready [128]unix.EpollEvent
}

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true) // without this, the runtime would not poll the file
	}
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &poll{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	p.raw, err = p.file.SyscallConn()
	return p, err
}

func (p *poll) close() { p.file.Close() }

// wait reports these events of a socket until the socket is closed. A listening socket has calls to
// accept. A connection has received data, or can send data.
const (
	callsWait   = unix.EPOLLIN
	comes       = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	comesOrGoes = comes | unix.EPOLLOUT
)

// watch makes wait report the events of a socket from now on.
func (p *poll) watch(fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// wake makes a wait end when its context ends.
func (p *poll) wake(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
}

// wait returns the sockets with events. It returns none if nothing has happened by until. A zero
// until means no time limit. wait also returns none if ctx has ended; ctx must have been given to
// wake before. The result is valid until the next wait.
func (p *poll) wait(ctx context.Context, until time.Time) []unix.EpollEvent {
	if !until.Equal(p.until) {
		p.until = until
		p.file.SetReadDeadline(until)
	}
	if ctx.Err() != nil { // wake may have acted before the deadline was set
		return nil
	}
	n := 0
	look := func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), p.ready[:], 0)
		return n > 0
	}
	if p.raw.Read(look) != nil {
		// If the process could not run for a while, the deadline may be over although there are
		// events.
		look(uintptr(p.fd))
	}
	return p.ready[:max(n, 0)]
}
