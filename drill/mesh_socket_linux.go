package drill

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openSocket makes a TCP socket that never blocks, never holds back a small
// message, and has its acknowledgements travel with what is said anyway: that
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

// segment is the maximum segment of a connection in bytes, as it is now.
func segment(fd int) int {
	mss, _ := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	return mss
}

// sockaddr is an address as system calls take it, and its family.
func sockaddr(to netip.AddrPort) (name []byte, family int, err error) {
	ip := to.Addr().Unmap()
	if ip.Is4() {
		name = binary.NativeEndian.AppendUint16(name, unix.AF_INET)
		name = binary.BigEndian.AppendUint16(name, to.Port())
		name = append(name, ip.AsSlice()...)
		return append(name, make([]byte, 8)...), unix.AF_INET, nil
	}
	zone := 0
	if name := ip.Zone(); name != "" {
		if link, err := net.InterfaceByName(name); err == nil {
			zone = link.Index
		} else if zone, err = strconv.Atoi(name); err != nil {
			return nil, 0, errors.New("this machine has no interface " + name)
		}
	}
	name = binary.NativeEndian.AppendUint16(name, unix.AF_INET6)
	name = binary.BigEndian.AppendUint16(name, to.Port())
	name = append(name, make([]byte, 4)...) // no flow
	name = append(name, ip.AsSlice()...)
	return binary.NativeEndian.AppendUint32(name, uint32(zone)), unix.AF_INET6, nil
}

func bindSocket(fd int, name []byte) error {
	_, err := direct(unix.SYS_BIND, fd, name)
	return os.NewSyscallError("bind", err)
}

func connectSocket(fd int, name []byte) error {
	_, err := direct(unix.SYS_CONNECT, fd, name)
	return err
}

func acceptSocket(fd int) (int, error) {
	accepted, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(accepted), nil
}

func readSocket(fd int, b []byte) (int, error) { return direct(unix.SYS_READ, fd, b) }

func writeSocket(fd int, b []byte) (int, error) { return direct(unix.SYS_WRITE, fd, b) }

func closeSocket(fd int) { _, _ = direct(unix.SYS_CLOSE, fd, nil) }

// direct makes a system call on a socket that does not block, without a word to
// Go's scheduler. Where a hundred nodes share a processor, a thread often has to
// wait for it in the middle of the kernel's work on a packet; the scheduler
// takes that for sleep and wakes another thread in its place, again and again.
func direct(call uintptr, fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
