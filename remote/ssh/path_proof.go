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
	// proofTime is what one proof gets. A machine too busy to greet a new
	// connection in that time may be asked again later.
	proofTime = 4 * time.Second
	// proofTick is how often the kernel is asked meanwhile.
	proofTick = 20 * time.Millisecond
	// gapTime is how long a gap must stay open: three times the peer's kernel
	// has sent what is missing by then.
	gapTime = 1500 * time.Millisecond
	// proofBytes is at most what a node is asked to send: more than a jumbo
	// frame, and little enough for the window that a connection begins with, so
	// that what comes behind it is sent as well.
	proofBytes = 16 << 10
)

// losesOutbound proves that full packets do not reach the node: on a new
// connection the server's greeting and our version line pass, so that the
// machine, its sshd and the way are alive, and the full packet behind them is
// never acknowledged. Acknowledging is the kernel's work, which no load delays
// for seconds.
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
	// A little more than one packet holds, so that one of them is full.
	if _, err := conn.Write(ignored(greeted.segment + 200)); err != nil {
		return false
	}
	sent, err := until(ctx, conn, func(now packets) bool { return now.unanswered || now.acknowledged != greeted.acknowledged })
	return err == nil && sent.acknowledged == greeted.acknowledged
}

// losesInbound proves that full packets do not come from the node: a second
// login, all of small packets, works, and when it has a few full ones sent, what
// comes behind them arrives and they do not.
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
	// Every login shell knows how to run this; the end of the command makes a
	// small packet behind the full ones.
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

// errNotGreeted is a new connection that was made and not greeted as by an ssh server.
var errNotGreeted = errors.New("connected, but the server sent no greeting")

// greeting makes a new connection and waits for the server's first line.
func (p *path) greeting(ctx context.Context) (*net.TCPConn, error) {
	conn, err := p.again(ctx)
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

// until returns what the kernel says of a connection as soon as it is so.
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

// ignored is an SSH_MSG_IGNORE of about this many bytes, as it is sent before
// there is a key: length, padding length, message, string, padding, the whole a
// multiple of eight (RFC 4253, 6 and 11.2). Servers read past it in silence.
func ignored(size int) []byte {
	const header, messageIgnore, padding = 4 + 1, 2, 4
	size = (size + 7) &^ 7
	packet := make([]byte, size)
	binary.BigEndian.PutUint32(packet, uint32(size-4))
	packet[4], packet[5] = padding, messageIgnore
	binary.BigEndian.PutUint32(packet[6:], uint32(size-header-1-4-padding))
	return packet
}
