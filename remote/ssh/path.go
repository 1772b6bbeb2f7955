// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/text"
	"preflight/remote"
)

// lookout calls at a node's ssh port once more, shortly before a deadline that
// the node seems to miss. A machine of which only one connection hangs greets the
// new one. One that is frozen takes it, which is the kernel's work, and is silent.
type lookout struct {
	via   string
	timer *time.Timer // nil where nobody can call from here

	mu        sync.Mutex
	seen      string
	unreached bool // no word came of a new connection, not even that it is refused
}

// LookOut stands by until ctx's deadline or until it is dismissed.
func (c *connection) LookOut(ctx context.Context) remote.Lookout {
	l := &lookout{via: c.via}
	deadline, limited := ctx.Deadline()
	switch left := time.Until(deadline); {
	case !limited:
	case c.via != "":
		l.seen = fmt.Sprintf("jump host %s is in between: a new connection from here cannot tell a hanging machine from a path that loses packets", c.via)
	case c.path != nil:
		l.timer = time.AfterFunc(left-remote.LastMoment(left), func() {
			ctx, cancel := context.WithTimeout(ctx, remote.LastMoment(left)*3/4)
			defer cancel()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.seen, l.unreached = c.path.look(ctx)
		})
	}
	return l
}

// look says what a new connection meets, and whether it gets there at all.
func (p *path) look(ctx context.Context) (seen string, unreached bool) {
	began := time.Now()
	conn, err := p.greeting(ctx)
	switch {
	case err == nil:
		conn.Close()
		return "a new connection gets a greeting: the machine and its SSH server work, and only this connection hangs", false
	case errors.Is(err, errNotGreeted):
		return fmt.Sprintf("a new connection is accepted but gets no greeting within %s: the machine or its SSH server hangs", text.Duration(time.Since(began).Seconds())), false
	}
	if call, is := errors.AsType[*net.OpError](err); is {
		err = call.Err // without the node's address, which would keep what is said of many apart
	}
	return fmt.Sprintf("a new connection fails: %v", err), !errors.Is(err, syscall.ECONNREFUSED)
}

func (l *lookout) Dismiss() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Tell adds what was seen to the failure of a node that froze.
func (l *lookout) Tell(failure *remote.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failure == nil || failure.Cause != remote.Frozen || l.seen == "" {
		return
	}
	failure.Detail["seen"] = l.seen
	if l.unreached {
		failure.Detail["unreached"] = "yes"
	}
	if l.via != "" {
		failure.Detail["jump"] = l.via
	}
	failure.Err = fmt.Errorf("%w; %s", failure.Err, l.seen)
}

// connection is a login and the way that its packets take.
type connection struct {
	ssh.Conn
	channels <-chan ssh.NewChannel // that the server wants to open, and
	requests <-chan *ssh.Request   // what else it asks

	path *path  // to the node or, through a jump host, to the first of them; nil when nobody here sees its packets
	via  string // the jump host that is crossed last, "" for none
}

// path watches the packets of one TCP connection for a black hole: somewhere on
// the way an MTU is smaller than both ends believe, small packets pass, and full
// ones vanish without a word. Ssh hangs then until its deadline and looks just
// as it does with a machine that hangs.
//
// Our own kernel arouses the suspicion and a new connection has to prove it
// (path_proof.go). A node that is merely slow is never suspected: its kernel
// acknowledges what arrives, however long the node takes to read and to answer.
type path struct {
	conn *net.TCPConn
	// again connects to the same address once more, and login logs in there.
	again func(context.Context) (net.Conn, error)
	login func(context.Context) (*connection, error)
	idle  time.Duration // how long nothing may move before anything is tried

	life context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer
	found *blackHole

	// Of the last look; only tick uses them, and never runs twice at once.
	moved packets
	since time.Time // that nothing has moved in a direction in which something should
}

// packets is what our kernel knows of a connection.
type packets struct {
	// acknowledged are the bytes the peer's kernel has from us, received those
	// we have from it without a gap.
	acknowledged, received uint64
	// unanswered: something was sent again and again and never acknowledged.
	unanswered bool
	// gap: later bytes have come, and what precedes them has not.
	gap bool
	// segment is the payload of the largest packet we send, expected that of the
	// largest the peer sends, and mtu what our end believes of the path, in bytes.
	segment, expected, mtu int
}

// stuckSince reports whether something is missing in a direction in which nothing has
// arrived in between. The other direction may be well: both ends of a talk beat.
func (p packets) stuckSince(before packets) bool {
	return p.unanswered && p.acknowledged == before.acknowledged || p.gap && p.received == before.received
}

// blackHole is a path that was proven to lose full packets.
type blackHole struct {
	outbound bool // on the way to the node; otherwise on the way from it
	mtu      int
	six      bool // over IPv6
}

func (b *blackHole) Error() string {
	return fmt.Sprintf("small packets pass but full ones %s it do not: an MTU on the path is smaller than the %d bytes of the launching machine's interface", b.direction(), b.mtu)
}

func (b *blackHole) direction() string {
	if b.outbound {
		return "to"
	}
	return "from"
}

// detail is what the cure needs; size is what ping has to send for a full packet.
func (b *blackHole) detail() map[string]string {
	headers := 20 + 8 // of IP and ICMP
	if b.six {
		headers = 40 + 8
	}
	return map[string]string{"direction": b.direction(), "mtu": strconv.Itoa(b.mtu), "size": strconv.Itoa(b.mtu - headers)}
}

// maxIdle is after how long a connection that moves nothing is looked into. The
// kernel has sent what is missing four or five times by then.
const maxIdle = 5 * time.Second

// watch begins to look at the path every now and then, until it is closed.
func (p *path) watch() {
	p.life, p.end = context.WithCancel(context.Background())
	p.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.idle/4, p.tick)
}

// close ends the watch. What is being tried ends by itself, soon.
func (p *path) close() {
	if p == nil {
		return
	}
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
}

func (p *path) tick() {
	seen, err := packetsOf(p.conn)
	if err != nil || p.life.Err() != nil {
		return // closed, or a system that does not tell
	}
	if !seen.stuckSince(p.moved) {
		p.since = time.Now()
	}
	p.moved = seen
	if time.Since(p.since) >= p.idle {
		if p.loses(seen) {
			return
		}
		p.since = time.Now() // not proven, and not to be asked at every tick
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() == nil {
		p.timer.Reset(p.idle / 4)
	}
}

// loses tries whether the path loses full packets, and closes the connection
// when that is proven.
func (p *path) loses(stuck packets) bool {
	address, _ := p.conn.RemoteAddr().(*net.TCPAddr)
	found := &blackHole{outbound: stuck.unanswered, mtu: stuck.mtu, six: address != nil && address.IP.To4() == nil}
	if found.outbound && !p.losesOutbound() || !found.outbound && !p.losesInbound() {
		return false
	}
	if now, err := packetsOf(p.conn); err != nil || !now.stuckSince(stuck) {
		return false // it moves after all
	}
	p.mu.Lock()
	p.found = found
	p.mu.Unlock()
	abort(p.conn)
	return true
}

// abort closes a connection by a reset, which is small and arrives. A proper end
// would have to wait for what is stuck before it, and the node meanwhile for us.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on a connection that is closed
	conn.Close()
}

// verdict is the black hole, nil unless one was proven.
func (p *path) verdict() *blackHole {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// Broken is the failure of a connection that we ended because its path loses
// full packets, nil if we did not. Host and stage are the caller's to fill in.
func (c *connection) Broken() *remote.Error {
	found := c.path.verdict()
	switch {
	case found == nil:
		return nil
	case c.via == "":
		return &remote.Error{Cause: remote.BlackHole, Detail: found.detail(), Err: found}
	}
	return &remote.Error{Cause: remote.JumpFailed, Detail: map[string]string{"jump": c.via, "cause": string(remote.BlackHole)},
		Err: fmt.Errorf("on the way to jump host %s: %w", c.via, found)}
}

// through is the connection of a tunnel that this one, to a jump host, carries.
func (c *connection) through(jump string) *connection {
	return &connection{path: c.path, via: cmp.Or(c.via, jump)}
}
