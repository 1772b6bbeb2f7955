// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// narrowest is the size in bytes of the largest packet, including its TCP header, that a narrowed
// socket receives. A key exchange fits into it, but our command does not.
const narrowest = 1400

// narrow makes the kernel drop packets larger than narrowest. It drops those that arrive at a
// socket and at connections that the socket accepts.
func narrow(_, _ string, c syscall.RawConn) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: narrowest, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 20},
	}
	var err error
	if inner := c.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}); inner != nil {
		return inner
	}
	return err
}

// narrowConn does the same as narrow for one connection.
func narrowConn(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		err = narrow("", "", raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dialled returns a direct connection to a server.
func dialled(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// shells starts a server named w1 whose logins have a shell. The server's listener has the given
// control function.
func (p *person) shells(t *testing.T, n *remotetest.Node, control func(string, string, syscall.RawConn) error) {
	t.Helper()
	n.Home = t.TempDir()
	key := newSigner(t)
	config := admits(p.key.PublicKey())
	config.AddHostKey(key)
	listener, err := (&net.ListenConfig{Control: control}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.Processes.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.Processes.Go(func() {
				// A black hole also drops the caller's last packets.
				defer context.AfterFunc(t.Context(), func() { conn.Close() })()
				defer conn.Close()
				n.Serve(conn, config)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		n.Processes.Wait()
	})
	p.knows(&node{address: listener.Addr().String(), key: key})
	p.write("config", host("w1", listener.Addr().(*net.TCPAddr).Port))
}

// loopback returns the values that the kernel has for the path to 127.0.0.1.
func loopback(direction string) map[string]string {
	return map[string]string{"direction": direction, "mtu": "65535", "size": "65507"}
}

func isBlackHole(t *testing.T, err error, stage remote.Stage, direction string) {
	t.Helper()
	var lost *remote.Error
	if !errors.As(err, &lost) || lost.Host != "w1" || lost.Stage != stage || lost.Cause != remote.BlackHole {
		t.Fatalf("got %v, want %s: %s", err, stage, remote.BlackHole)
	}
	if diff := cmp.Diff(loopback(direction), lost.Detail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
}

// TestBlackHoleOnTheWayThere: lost data is recognised long before the node's time is over. In the
// first case a command is lost, in the second a request before the login that is larger than a
// packet.
func TestBlackHoleOnTheWayThere(t *testing.T) {
	const timeout = 12 * time.Second
	users := map[remote.Stage]string{remote.StageSession: "", remote.StageLogin: strings.Repeat("u", 2*narrowest)}
	people := map[remote.Stage]*person{remote.StageSession: newPerson(t), remote.StageLogin: newPerson(t)} // created first, because both check for leaks at the end
	for stage, user := range users {
		p := people[stage]
		p.shells(t, &remotetest.Node{}, narrow)
		c := p.client(Options{Timeout: timeout, User: user, AgentSocket: "none"})
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel() // the test spends most of its time waiting
			began := time.Now()
			_, _, err := remote.New(c, remote.Options{Timeout: timeout}).Reach(t.Context(), "w1")
			isBlackHole(t, err, stage, "to")
			if took := time.Since(began); took > timeout-remote.LastMoment(timeout) {
				t.Errorf("took %s of %s", took, timeout)
			}
		})
	}
}

// keeping is a carrier that stores its last connection.
type keeping struct {
	remote.Carrier
	last *connection
}

func (k *keeping) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	conn, trace, err := k.Carrier.Dial(ctx, name)
	k.last, _ = conn.(*connection)
	return conn, trace, err
}

// TestBlackHoleOnTheWayBack: an answer that is lost leaves a gap, on the first login and on a
// second one.
func TestBlackHoleOnTheWayBack(t *testing.T) {
	p := newPerson(t)
	p.shells(t, &remotetest.Node{}, nil)
	c := p.client(Options{Timeout: time.Minute})
	kept := &keeping{Carrier: c}
	agent, _, err := remote.New(kept, remote.Options{Timeout: time.Minute}).Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	was := kept.last.path
	was.close()
	watched := &path{conn: was.conn, reconnect: was.reconnect, idle: 400 * time.Millisecond, login: func(ctx context.Context) (*connection, error) {
		second, err := was.login(ctx)
		if err == nil {
			narrowConn(t, second.path.conn)
		}
		return second, err
	}}
	kept.last.path = watched
	narrowConn(t, was.conn)
	watched.watch()
	defer watched.close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = agent.Call(ctx, "big", "4000 1", remotetest.Nothing)
	isBlackHole(t, err, remote.StageTalk, "from")
}

// TestBlackHoleIsProven: a black hole on one connection counts only if it also appears on another
// connection.
func TestBlackHoleIsProven(t *testing.T) {
	p := newPerson(t)
	p.shells(t, &remotetest.Node{}, nil)
	c := p.client(Options{})
	login := func(ctx context.Context) (*connection, error) {
		client, _, err := c.Dial(ctx, "w1")
		if err != nil {
			return nil, err
		}
		return client.(*connection), nil
	}
	to := func(address string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }
	}
	silent, _ := listen(t, stay)
	greets, _ := listen(t, func(conn net.Conn) {
		io.WriteString(conn, "SSH-2.0-test\r\n")
		io.Copy(io.Discard, conn)
	})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	lossy := func(conn net.Conn) {
		narrowConn(t, conn.(*net.TCPConn))
		conn.Write([]byte("go"))
		stay(conn)
	}
	gapped := func(conn net.Conn) {
		conn.Write([]byte("go"))
		conn.Read(make([]byte, 1)) // the caller has narrowed its end
		conn.Write(make([]byte, 2*narrowest))
		conn.Write([]byte("tail"))
		stay(conn)
	}
	for name, test := range map[string]struct {
		serve func(net.Conn)
		again func(context.Context) (net.Conn, error)
	}{
		"the machine hangs":             {lossy, to(silent)},
		"the machine is gone":           {lossy, to(closed.Addr().String())},
		"only that connection there":    {lossy, to(greets)},
		"only that connection's return": {gapped, to(greets)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := listen(t, test.serve)
			conn := dialled(t, address)
			narrowConn(t, conn)
			if _, err := io.ReadFull(conn, make([]byte, len("go"))); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(make([]byte, 3*narrowest)); err != nil {
				t.Fatal(err)
			}
			watched := &path{conn: conn, reconnect: test.again, login: login, idle: time.Hour}
			watched.watch()
			defer watched.close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			stuck, err := until(ctx, conn, func(now packets) bool { return now.unanswered || now.gap })
			if err != nil {
				t.Fatal(err)
			}
			if watched.loses(stuck) || watched.verdict() != nil {
				t.Errorf("a black hole was seen behind %+v", stuck)
			}
			if _, err := packetsOf(conn); err != nil {
				t.Errorf("the connection was closed: %v", err)
			}
		})
	}
}

// TestSlowNodesAreNotSuspected: a node that reads nothing or sends nothing is not suspected. The
// data that we send is in the buffer of the node's kernel, or in our own buffer because the node's
// buffer is full.
func TestSlowNodesAreNotSuspected(t *testing.T) {
	remotetest.NoLeaks(t)
	address, _ := listen(t, stay)
	for name, size := range map[string]int{"says nothing": 100, "reads nothing": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialled(t, address)
			written := make(chan struct{})
			go func() {
				defer close(written)
				io.Copy(conn, bytes.NewReader(make([]byte, size))) // the close below ends the copy
			}()
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(proofTick) {
				if now, err := packetsOf(conn); err != nil || now.unanswered || now.gap {
					t.Fatalf("suspected: %+v, %v", now, err)
				}
			}
			conn.Close()
			<-written
		})
	}
}
