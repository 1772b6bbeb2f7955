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

// lookout connects to a node's ssh port once more, shortly before a deadline that the node seems
// likely to miss. If only one connection hangs, the node sends a greeting on the new one. If the
// machine is frozen, its kernel accepts the connection but nothing is sent.
type lookout struct {
	via   string
	timer *time.Timer // nil if the launching machine cannot connect directly

	mu        sync.Mutex
	seen      string
	unreached bool // a new connection got no answer, not even a refusal
}

// LookOut starts to wait until shortly before ctx's deadline, or until it is dismissed.
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
			l.seen, l.unreached = c.path.tryConnection(ctx)
		})
	}
	return l
}

// tryConnection returns what happens to a new connection, and whether the node could not be reached
// at all.
func (p *path) tryConnection(ctx context.Context) (seen string, unreached bool) {
	began := time.Now()
	conn, err := p.greeting(ctx)
	switch {
	case err == nil:
		conn.Close()
		return "a new connection gets a greeting: the machine and its SSH server work, and only this connection hangs", false
	case errors.Is(err, errNotGreeted):
		return fmt.Sprintf("a new connection is accepted but gets no greeting within %s: the machine or its SSH server hangs", text.Duration(time.Since(began).Seconds())), false
	}
	if call, ok := errors.AsType[*net.OpError](err); ok {
		err = call.Err // without the node's address, so that equal failures of many nodes are grouped
	}
	return fmt.Sprintf("a new connection fails: %v", err), !errors.Is(err, syscall.ECONNREFUSED)
}

func (l *lookout) Dismiss() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Tell adds the result to the failure of a frozen node.
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

// connection is a login and the network path of its packets.
type connection struct {
	ssh.Conn
	channels <-chan ssh.NewChannel // channels that the server wants to open
	requests <-chan *ssh.Request   // the server's other requests

	path *path  // the path to the node or to the first jump host; nil if the launching machine does not see the packets
	via  string // the last jump host, "" for none
}

// path watches the packets of one TCP connection for a black hole: an MTU on the path is smaller
// than both ends believe, so small packets arrive and full packets are lost silently. ssh then
// hangs until its deadline, exactly as with a machine that hangs.
//
// The local kernel's data raise the suspicion, and a new connection must prove it (path_proof.go).
// A slow node is never suspected, because its kernel acknowledges what arrives, however long the
// node takes to read and to answer.
type path struct {
	conn *net.TCPConn
	// reconnect makes another connection to the same address. login logs in to the same address.
	reconnect func(context.Context) (net.Conn, error)
	login     func(context.Context) (*connection, error)
	idle      time.Duration // how long no data may move before a proof is tried

	life context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer
	found *blackHole

	// The state of the last tick. Only tick uses these fields, and tick never runs concurrently.
	moved packets
	since time.Time // when data last moved in a direction in which some should move
}

// packets holds what the local kernel knows about a connection.
type packets struct {
	// acknowledged is how many bytes the peer's kernel has received from us. received is how many
	// bytes we have received without a gap.
	acknowledged, received uint64
	// unanswered means that a packet was sent repeatedly and never acknowledged.
	unanswered bool
	// gap means that later bytes have arrived and the bytes before them have not.
	gap bool
	// In bytes: segment is the payload of the largest packet that we send. expected is the payload
	// of the largest packet that the peer sends. mtu is the MTU that our end assumes for the path.
	segment, expected, mtu int
}

// stuckSince reports whether data are missing in a direction in which nothing has arrived since
// before. The other direction may work, because both ends send heartbeats.
func (p packets) stuckSince(before packets) bool {
	return p.unanswered && p.acknowledged == before.acknowledged || p.gap && p.received == before.received
}

// blackHole is a path that is proven to lose full packets.
type blackHole struct {
	outbound bool // packets to the node are lost; if false, packets from the node
	mtu      int
	six      bool // the connection is over IPv6
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

// detail returns the values that the fix needs. size is the number of bytes that ping must send to
// make a full packet.
func (b *blackHole) detail() map[string]string {
	headers := 20 + 8 // headers of IP and ICMP
	if b.six {
		headers = 40 + 8
	}
	return map[string]string{"direction": b.direction(), "mtu": strconv.Itoa(b.mtu), "size": strconv.Itoa(b.mtu - headers)}
}

// maxIdle is how long no data may move on a connection before it is examined. In that time the
// kernel has resent the missing data four or five times.
const maxIdle = 5 * time.Second

// watch starts to check the path at intervals until close is called.
func (p *path) watch() {
	p.life, p.end = context.WithCancel(context.Background())
	p.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.idle/4, p.tick)
}

// close ends the watch. A proof in progress soon ends by itself.
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
		return // the connection is closed, or the system does not report packets
	}
	if !seen.stuckSince(p.moved) {
		p.since = time.Now()
	}
	p.moved = seen
	if time.Since(p.since) >= p.idle {
		if p.loses(seen) {
			return
		}
		p.since = time.Now() // not proven, so do not try again at every tick
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() == nil {
		p.timer.Reset(p.idle / 4)
	}
}

// loses tries to prove that the path loses full packets. It closes the connection if that is
// proven.
func (p *path) loses(stuck packets) bool {
	address, _ := p.conn.RemoteAddr().(*net.TCPAddr)
	found := &blackHole{outbound: stuck.unanswered, mtu: stuck.mtu, six: address != nil && address.IP.To4() == nil}
	if found.outbound && !p.losesOutbound() || !found.outbound && !p.losesInbound() {
		return false
	}
	if now, err := packetsOf(p.conn); err != nil || !now.stuckSince(stuck) {
		return false // data moves after all
	}
	p.mu.Lock()
	p.found = found
	p.mu.Unlock()
	abort(p.conn)
	return true
}

// abort closes a connection with a reset, which is a small packet and arrives. A normal close would
// wait until the stuck data are sent, and the node would wait for us.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on a closed connection
	conn.Close()
}

// verdict returns the proven black hole, nil if none was proven.
func (p *path) verdict() *blackHole {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// Broken returns the failure of a connection that we ended because its path loses full packets. It
// returns nil if we did not end the connection. The caller fills in host and stage.
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

// through returns the connection of a tunnel over this connection to a jump host.
func (c *connection) through(jump string) *connection {
	return &connection{path: c.path, via: cmp.Or(c.via, jump)}
}
