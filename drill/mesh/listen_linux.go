// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Listener accepts the calls of peers.
type Listener struct {
	key       key
	answer    speech
	listening []Listening
	poll      *poll
	sockets   map[int]bool    // the listening sockets
	callers   map[int]*caller // by socket
	buffer    []byte
	counting  sync.WaitGroup // throughput calls, which have separate goroutines
}

// Open starts to listen. If an address cannot be bound, Open returns no error; Listening reports
// it. The sockets stay open until Serve ends.
func Open(l Listen) (*Listener, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	poll, err := newPoll()
	if err != nil {
		return nil, fmt.Errorf("listening for peers: %w", err)
	}
	listener := &Listener{
		key: keyOf(l.Token), poll: poll, buffer: make([]byte, 64<<10),
		sockets: map[int]bool{}, callers: map[int]*caller{},
	}
	listener.answer = speech{kind: meshAnswer, key: listener.key, node: l.Node}
	for _, address := range l.Addresses {
		there := Listening{Address: address}
		ports, err := listener.open(address, l.Bound[address], l.Low, l.High)
		if err != nil {
			there.Error = fmt.Sprintf("cannot listen on %s: %v", address, err)
		}
		there.Ports = ports
		listener.listening = append(listener.listening, there)
	}
	return listener, nil
}

// Listening returns the result for each address, in the order of the request.
func (l *Listener) Listening() []Listening { return l.listening }

// portsEach is how many ports each address gets. A firewall may have opened only a part of the
// range, and a single port might happen to be in that part.
const portsEach = 3

// smallRange is the number of ports below which an address gets only one port. The launch may need
// all others, and so may the calls of this test.
const smallRange = 64

// open listens on one port in each part of low to high, or on no port at all. If by is set, the
// sockets accept connections only on that interface.
func (l *Listener) open(address, by string, low, high int) (ports []int, err error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, errors.New("it is not an IP address")
	}
	parts := portsEach
	if high-low+1 < smallRange {
		parts = 1
	}
	var opened []int
	for i := range parts {
		from := low + i*(high-low+1)/parts
		to := low + (i+1)*(high-low+1)/parts // exclusive upper bound
		fd, port, err := listenBetween(ip, by, from, to)
		if parts == 1 && errors.Is(err, unix.EADDRINUSE) { // the launch may need fewer ports than this test
			fd, port, err = listenBetween(ip, by, defaultLow, defaultHigh+1)
		}
		if err == nil {
			opened = append(opened, fd)
			ports = append(ports, port)
			err = l.poll.watch(fd, callsWait)
		}
		if err != nil {
			for _, fd := range opened {
				unix.Close(fd)
			}
			return nil, err
		}
	}
	for _, fd := range opened {
		l.sockets[fd] = true
	}
	return ports, nil
}

// listenBetween opens a random free port. The port is at least from and less than to.
func listenBetween(ip netip.Addr, by string, from, to int) (fd, port int, err error) {
	for i, start := 0, rand.N(to-from); i < to-from; i++ {
		port = from + (start+i)%(to-from)
		if fd, err = listenAt(netip.AddrPortFrom(ip, uint16(port)), by); !errors.Is(err, unix.EADDRINUSE) {
			return fd, port, err
		}
	}
	return -1, 0, err
}

func listenAt(at netip.AddrPort, by string) (int, error) {
	name, family, err := sockaddr(at)
	if err != nil {
		return -1, err
	}
	fd, err := openSocket(family)
	if err != nil {
		return -1, err
	}
	if err = errors.Join(bindTo(fd, by), os.NewSyscallError("bind", unix.Bind(fd, name))); err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, unix.SOMAXCONN))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Serve answers calls until ctx ends, then closes everything and returns. The caller of Open must
// always call Serve, if necessary with a context that has ended.
func (l *Listener) Serve(ctx context.Context) {
	defer l.close()
	defer l.poll.wake(ctx)()
	for ctx.Err() == nil {
		for _, n := range l.poll.wait(ctx, time.Time{}) {
			fd := int(n.Fd)
			if l.sockets[fd] {
				l.accept(ctx, fd)
			} else if c := l.callers[fd]; c != nil {
				l.attend(ctx, c)
			}
		}
	}
}

func (l *Listener) close() {
	for fd := range l.sockets {
		unix.Close(fd)
	}
	for fd := range l.callers {
		unix.Close(fd)
	}
	l.poll.close()
	l.counting.Wait()
}
