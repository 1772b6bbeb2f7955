// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/remote"
)

// TestJumpIsShared: all nodes behind a jump host share one connection to it, even if they connect
// at the same time.
func TestJumpIsShared(t *testing.T) {
	p := newPerson(t)
	bastion, n := startNode(t, admits(p.key.PublicKey())), startNode(t, admits(p.key.PublicKey()))
	p.knows(bastion)
	p.knows(n)
	p.write("config", host("bastion", bastion.port)+host("w*", n.port, "ProxyJump bastion"))
	c := p.client(Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			client, trace, err := c.Dial(context.Background(), "w"+strconv.Itoa(i))
			if err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff([]string{"bastion"}, trace.Via); diff != "" {
				t.Error(diff)
			}
			client.Close()
		})
	}
	all.Wait()
	c.Close()
	var logins, present int
	for range 100 {
		bastion.mu.Lock()
		logins, present = bastion.logins, bastion.present
		bastion.mu.Unlock()
		if present == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if logins != 1 || present != 0 {
		t.Errorf("%d connections to the jump host, %d of them open after Close", logins, present)
	}
}

func TestJumpChain(t *testing.T) {
	p := newPerson(t)
	outer, inner, n := startNode(t, admits(p.key.PublicKey())), startNode(t, admits(p.key.PublicKey())), startNode(t, admits(p.key.PublicKey()))
	for _, each := range []*node{outer, inner, n} {
		p.knows(each)
	}
	for name, config := range map[string]string{
		"list": host("outer", outer.port) + host("w1", n.port, fmt.Sprintf("ProxyJump outer,carol@127.0.0.1:%d", inner.port)),
		"each": host("outer", outer.port) + host("127.0.0.1", inner.port, "ProxyJump outer") + host("w1", n.port, "ProxyJump 127.0.0.1"),
	} {
		p.write("config", config)
		c := p.client(Options{})
		client, trace, err := c.Dial(context.Background(), "w1")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		client.Close()
		if diff := cmp.Diff([]string{"outer", "127.0.0.1"}, trace.Via); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		c.Close()
	}
}

func TestJumpFails(t *testing.T) {
	const limit = time.Second
	p := newPerson(t)
	bastion := startNode(t, admits(p.key.PublicKey()))
	p.knows(bastion)
	_, silent := listen(t, stay)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	p.write("config", host("bastion", bastion.port)+host("dead", nowhere)+host("mute", silent)+
		host("w1", 1, "ProxyJump dead")+host("w2", 1, "ProxyJump mute")+host("w3", nowhere, "ProxyJump bastion")+
		host("w4", silent, "ProxyJump bastion")+host("loop1", 1, "ProxyJump loop2")+host("loop2", 1, "ProxyJump loop1"))
	c := p.client(Options{Timeout: limit})

	e, _ := p.failed(c, "w1", limit, remote.StageConnect, remote.JumpFailed, "jump host dead: dead: connect: refused")
	if e.Detail["jump"] != "dead" || e.Detail["cause"] != string(remote.Refused) {
		t.Errorf("detail %v", e.Detail)
	}
	e, _ = p.failed(c, "w2", limit, remote.StageGreet, remote.JumpFailed, "jump host mute: mute: greet: silent")
	if e.Detail["cause"] != string(remote.Silent) {
		t.Errorf("detail %v", e.Detail)
	}
	e, _ = p.failed(c, "w3", limit, remote.StageConnect, remote.Refused, "from jump host bastion")
	if e.Detail["jump"] != "bastion" {
		t.Errorf("detail %v", e.Detail)
	}
	p.failed(c, "w4", limit, remote.StageGreet, remote.Silent, "no greeting")
	p.failed(c, "loop1", limit, remote.StageConnect, remote.JumpFailed, "jumphost loop")
}

// TestJumpFreezes: if a jump host freezes after the login, the nodes behind it fail at their own
// deadlines. Close ends every call that still waits for the jump host.
func TestJumpFreezes(t *testing.T) {
	p := newPerson(t)
	bastion, n := startNode(t, admits(p.key.PublicKey())), startNode(t, admits(p.key.PublicKey()))
	p.knows(bastion)
	frozen := make(chan struct{})
	_, between := listen(t, func(conn net.Conn) { relay(conn, bastion.address, frozen) })
	p.write("known_hosts", line("[127.0.0.1]:"+strconv.Itoa(between), bastion.key.PublicKey()))
	p.knows(n)
	p.write("config", host("bastion", between)+host("w1", n.port, "ProxyJump bastion"))
	c := p.client(Options{Timeout: time.Second})
	client, _, err := c.Dial(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	close(frozen)
	p.failed(c, "w1", 300*time.Millisecond, remote.StageConnect, remote.TimedOut, "from jump host bastion within")
	waiting := make(chan *remote.Error)
	go func() {
		_, failure := client.Start("true", io.Discard)
		waiting <- failure
	}()
	time.AfterFunc(100*time.Millisecond, func() { client.Close() })
	select {
	case failure := <-waiting:
		if failure == nil {
			t.Error("a session on a node that nobody reaches")
		}
	case <-time.After(5 * time.Second):
		t.Error("closing a node's connection does not free its calls while the jump host is frozen")
	}
}

// relay copies bytes until it freezes. After that it drops them.
func relay(conn net.Conn, to string, frozen <-chan struct{}) {
	beyond, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	pump := func(dst, src net.Conn) {
		defer dst.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := src.Read(buffer)
			if err != nil {
				return
			}
			select {
			case <-frozen:
			default:
				dst.Write(buffer[:n])
			}
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pump(beyond, conn) })
	both.Go(func() { pump(conn, beyond) })
	both.Wait()
}

func TestProxyCommand(t *testing.T) {
	p := newPerson(t)
	n := startNode(t, admits(p.key.PublicKey()))
	p.knows(n)
	relay := filepath.Join(p.home, "relay")
	script := "#!/bin/bash\nexec 3<>/dev/tcp/$1/$2\necho $$ > " + relay + ".pid\ncat <&3 &\nexec cat >&3\n"
	if err := os.WriteFile(relay, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHELL", "/bin/sh")
	p.write("config", host("w1", n.port, "ProxyCommand "+relay+" %h %p"))
	client, trace, err := p.client(Options{}).Dial(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	if trace.Banner != "SSH-2.0-Go" {
		t.Errorf("trace %+v", trace)
	}
	text, err := os.ReadFile(relay + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	client.Close()
	for range 100 {
		if err := syscall.Kill(-pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process group %d outlives its connection", pid)
}

func TestProxyCommandFails(t *testing.T) {
	p := newPerson(t)
	t.Setenv("SHELL", "/bin/sh")
	p.write("config", host("w1", 1, "ProxyCommand /bin/sh -c 'echo no way >&2; exit 3'")+
		host("w2", 1, "ProxyCommand sleep 1000")+host("w3", 1, "ProxyCommand /nonexistent/relay"))
	c := p.client(Options{})
	e, _ := p.failed(c, "w1", 5*time.Second, remote.StageConnect, remote.ProxyFailed, "exit status 3): no way")
	if !strings.HasPrefix(e.Detail["command"], "/bin/sh -c") {
		t.Errorf("detail %v", e.Detail)
	}
	p.failed(c, "w2", 300*time.Millisecond, remote.StageGreet, remote.Silent, "no greeting")
	p.failed(c, "w3", 5*time.Second, remote.StageConnect, remote.ProxyFailed, "/nonexistent/relay")
}
