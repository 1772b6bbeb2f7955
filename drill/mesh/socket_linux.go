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

// openSocket makes a TCP socket that never blocks, never holds back a small
// message, and has its acknowledgements travel with what is sent anyway: that
// is a third of the packets of a call. Connections taken inherit all of it.
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

// bindTo has a socket, and what it accepts, send and hear by one interface alone; "" leaves it as
// it is. Before Linux 5.7 that took CAP_NET_RAW (net/core/sock.c, sock_bindtoindex_locked).
func bindTo(fd int, name string) error {
	if name == "" {
		return nil
	}
	return os.NewSyscallError("bind to "+name, unix.BindToDevice(fd, name))
}

// segment is the maximum segment of a connection in bytes, as it is now.
func segment(fd int) int {
	mss, _ := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	return mss
}

// sockaddr is an address as system calls take it, and its family.
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

// poll waits for many sockets with one goroutine. A goroutine for each, with
// what package net does for each connection, costs a full mesh of 128 nodes on
// two processors more time than the calls themselves.
type poll struct {
	file  *os.File // the kernel's poll set, which the runtime polls like a socket
	raw   syscall.RawConn
	fd    int
	until time.Time
	ready [128]unix.EpollEvent
}

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true) // only then the runtime polls it
	}
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &poll{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	p.raw, err = p.file.SyscallConn()
	return p, err
}

func (p *poll) close() { p.file.Close() }

// What wait can report of a socket, until it is closed: a listening one
// has calls, and of a connection something has come, or has come or gone.
const (
	callsWait   = unix.EPOLLIN
	comes       = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	comesOrGoes = comes | unix.EPOLLOUT
)

// watch has wait report a socket from now on.
func (p *poll) watch(fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// wake ends a wait whose context ends.
func (p *poll) wake(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
}

// wait returns the sockets of which there is news. There is none when there is
// none, even now that the time has come (a zero time never does), or when ctx,
// which must have been given to wake, has ended. The result is good until the
// next wait.
func (p *poll) wait(ctx context.Context, until time.Time) []unix.EpollEvent {
	if !until.Equal(p.until) {
		p.until = until
		p.file.SetReadDeadline(until)
	}
	if ctx.Err() != nil { // wake may have been before our deadline
		return nil
	}
	n := 0
	look := func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), p.ready[:], 0)
		return n > 0
	}
	if p.raw.Read(look) != nil {
		// A process that was kept from running finds the time gone and news there.
		look(uintptr(p.fd))
	}
	return p.ready[:max(n, 0)]
}
