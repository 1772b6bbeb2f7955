// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// proofTime is the time limit for one proof. If a machine is too busy to send a greeting in
	// that time, the proof may be repeated later.
	proofTime = 4 * time.Second
	// proofTick is how often the kernel is asked during a proof.
	proofTick = 20 * time.Millisecond
	// gapTime is how long a gap must stay open. In that time the peer's kernel has sent the missing
	// data three times.
	gapTime = 1500 * time.Millisecond
	// proofBytes is the size in bytes of the largest answer that a node is asked to send. It is
	// more than a jumbo frame. It also fits into a connection's initial window, so that the packet
	// after the answer is sent as well.
	proofBytes = 16 << 10
)

// losesOutbound reports whether it could prove that full packets do not reach the node. On a new
// connection the server's greeting and our version line arrive. The machine, its sshd and the path
// therefore work. The full packet after them is never acknowledged. The kernel acknowledges
// packets, and no load delays the kernel for seconds.
func (p *path) losesOutbound() bool {
	ctx, cancel := context.WithTimeout(p.life, proofTime)
	defer cancel()
	conn, err := p.greeting(ctx)
	if err != nil {
		return false
	}
	defer abort(conn)
	fresh, err := packetsOf(conn)
	if err != nil {
		return false
	}
	line, err := io.WriteString(conn, "SSH-2.0-preflight\r\n")
	if err != nil {
		return false
	}
	greeted, err := until(ctx, conn, func(now packets) bool { return now.acknowledged >= fresh.acknowledged+uint64(line) })
	if err != nil {
		return false
	}
	// The message is a little larger than one packet, so that one packet is full.
	if _, err := conn.Write(ignored(greeted.segment + 200)); err != nil {
		return false
	}
	sent, err := until(ctx, conn, func(now packets) bool { return now.unanswered || now.acknowledged != greeted.acknowledged })
	return err == nil && sent.acknowledged == greeted.acknowledged
}

// losesInbound reports whether it could prove that full packets from the node are lost. A second
// login works, because it needs only small packets. When the node then sends a few full packets,
// they do not arrive, but the small packet after them does.
func (p *path) losesInbound() bool {
	ctx, cancel := context.WithTimeout(p.life, proofTime)
	defer cancel()
	second, err := p.login(ctx)
	if err != nil {
		return false
	}
	defer abort(second.path.conn)
	defer context.AfterFunc(ctx, func() { second.Close() })()
	quiet, err := packetsOf(second.path.conn)
	if err != nil {
		return false
	}
	// Every login shell can run this command. The end of the command is a small packet after the
	// full ones.
	wanted := min(3*quiet.expected, proofBytes)
	if _, failure := second.Start(fmt.Sprintf("head -c %d /dev/zero", wanted), io.Discard); failure != nil {
		return false
	}
	var opened time.Time
	var before packets
	stuck, err := until(ctx, second.path.conn, func(now packets) bool {
		if !now.gap || !now.stuckSince(before) {
			opened, before = time.Now(), now
		}
		return time.Since(opened) >= gapTime || now.received >= quiet.received+uint64(wanted)
	})
	return err == nil && stuck.gap
}

// errNotGreeted means that a new connection was accepted, but no greeting of an ssh server came.
var errNotGreeted = errors.New("connected, but the server sent no greeting")

// greeting makes a new connection and waits for the server's first line.
func (p *path) greeting(ctx context.Context) (*net.TCPConn, error) {
	conn, err := p.reconnect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	line, err := bufio.NewReader(conn).ReadString('\n')
	tcp, ok := conn.(*net.TCPConn)
	if !stop() || err != nil || !ok || !strings.HasPrefix(line, "SSH-") {
		conn.Close()
		return nil, errNotGreeted
	}
	return tcp, nil
}

// until waits until the kernel's data on a connection fulfil the condition so, and returns these
// data.
func until(ctx context.Context, conn *net.TCPConn, so func(packets) bool) (packets, error) {
	tick := time.NewTicker(proofTick)
	defer tick.Stop()
	for {
		now, err := packetsOf(conn)
		if err != nil || so(now) {
			return now, err
		}
		select {
		case <-ctx.Done():
			return packets{}, ctx.Err()
		case <-tick.C:
		}
	}
}

// ignored returns an SSH_MSG_IGNORE of about size bytes, in the format before key exchange. It
// consists of length, padding length, message, string and padding, in total a multiple of eight
// bytes (RFC 4253, 6 and 11.2). Servers skip it silently.
func ignored(size int) []byte {
	const header, messageIgnore, padding = 4 + 1, 2, 4
	size = (size + 7) &^ 7
	packet := make([]byte, size)
	binary.BigEndian.PutUint32(packet, uint32(size-4))
	packet[4], packet[5] = padding, messageIgnore
	binary.BigEndian.PutUint32(packet[6:], uint32(size-header-1-4-padding))
	return packet
}
