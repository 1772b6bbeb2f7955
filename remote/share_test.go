// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/testhosts/remotetest"
)

// asks starts a delivery that needs the copy "h". seen lists the tags that it has seen in its
// directory.
func (s *homes) asks(t *testing.T, tag string, seen ...string) <-chan *sent {
	s.meet(tag, seen)
	turn := make(chan *sent, 1)
	go func() { turn <- s.awaitCopy(t.Context(), tag, "h") }()
	synctest.Wait()
	return turn
}

// mustSend returns the copy that the delivery must send. The test fails if the delivery must wait
// instead.
func mustSend(t *testing.T, who string, turn <-chan *sent) *sent {
	t.Helper()
	select {
	case one := <-turn:
		if one == nil {
			t.Fatalf("%s looks again, and nothing has arrived", who)
		}
		return one
	default:
		t.Fatalf("%s waits", who)
		return nil
	}
}

func mustWait(t *testing.T, who string, turn <-chan *sent) {
	t.Helper()
	if len(turn) != 0 {
		t.Fatalf("%s does not wait: %+v", who, <-turn)
	}
}

func mustLook(t *testing.T, who string, turn <-chan *sent) {
	t.Helper()
	synctest.Wait()
	if len(turn) == 0 {
		t.Fatalf("%s still waits", who)
	}
	if one := <-turn; one != nil {
		t.Fatalf("%s is sent another copy", who)
	}
}

// nodes returns the homes of four deliveries.
func nodes() *homes {
	s := &homes{}
	for _, tag := range []string{"a", "b", "c", "d"} {
		s.enter(tag)
	}
	return s
}

func TestOneCopyForAHome(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *homes){
		"seen by the second": func(t *testing.T, s *homes) {
			a, b := s.asks(t, "a"), s.asks(t, "b", "-", "a")
			mustWait(t, "b", b)
			mustSend(t, "a", a).end(true)
			mustLook(t, "b", b)
		},
		"seen by the first": func(t *testing.T, s *homes) {
			a, b := s.asks(t, "a", "b"), s.asks(t, "b")
			mustWait(t, "b", b)
			mustSend(t, "a", a).end(true)
			mustLook(t, "b", b)
		},
		"by way of a third": func(t *testing.T, s *homes) {
			a, b := s.asks(t, "a"), s.asks(t, "b", "c")
			two := mustSend(t, "b", b) // the nodes have not seen each other yet
			c, d := s.asks(t, "c", "a"), s.asks(t, "d", "b")
			mustWait(t, "c", c)
			mustWait(t, "d", d)
			mustSend(t, "a", a).end(true)
			two.end(true)
			mustLook(t, "c", c)
			mustLook(t, "d", d)
		},
		"arrived before": func(t *testing.T, s *homes) {
			mustSend(t, "a", s.asks(t, "a", "b")).end(true)
			mustLook(t, "b", s.asks(t, "b"))
		},
		"homes of their own": func(t *testing.T, s *homes) {
			mustSend(t, "a", s.asks(t, "a"))
			mustSend(t, "b", s.asks(t, "b", "-", "0123456789abcdef")) // the tag was left by an earlier run
		},
		"the first fails": func(t *testing.T, s *homes) {
			a, b, c := s.asks(t, "a"), s.asks(t, "b", "a"), s.asks(t, "c", "a")
			mustSend(t, "a", a).end(false)
			synctest.Wait()
			if len(b) == len(c) {
				t.Fatalf("%d and %d have their turn", len(b), len(c))
			}
			if len(b) == 0 {
				b, c = c, b
			}
			mustSend(t, "the next", b).end(true)
			mustLook(t, "the last", c)
		},
		"the first freezes": func(t *testing.T, s *homes) {
			s.asks(t, "a")
			began, b := time.Now(), s.asks(t, "b", "a")
			if one := <-b; one == nil || time.Since(began) != stillness {
				t.Errorf("after %s it is sent %+v", time.Since(began), one)
			}
		},
		"the first is slow": func(t *testing.T, s *homes) {
			slow := mustSend(t, "a", s.asks(t, "a"))
			began, b := time.Now(), s.asks(t, "b", "a")
			waited := make(chan time.Duration, 1)
			go func() {
				one := <-b
				if one == nil {
					t.Error("it looks again, and nothing has arrived")
				}
				waited <- time.Since(began)
			}()
			for range 2 * longestWait / time.Second {
				_, _ = watched{strings.NewReader("x"), slow}.Read(make([]byte, 1))
				time.Sleep(time.Second)
			}
			if took := <-waited; took != longestWait {
				t.Errorf("it is sent another after %s", took)
			}
		},
		"little time": func(t *testing.T, s *homes) {
			s.asks(t, "a")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // Reach also has a time limit
			defer cancel()
			s.meet("b", []string{"a"})
			began := time.Now()
			if one := s.awaitCopy(ctx, "b", "h"); one == nil || time.Since(began) != time.Second {
				t.Errorf("after %s it is sent %+v", time.Since(began), one)
			}
		},
		"another directory": func(t *testing.T, s *homes) {
			mustSend(t, "a", s.asks(t, "a", "b"))
			s.move("b")
			mustSend(t, "b", s.asks(t, "b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, nodes()) })
		})
	}
}

// begin creates the file with which a delivery begins.
func begin(t *testing.T, home, hash, tag string) {
	t.Helper()
	part := filepath.Join(home, ".cache/preflight/preflight-"+hash+"."+tag)
	remotetest.Script(t, part, "")
	if err := os.Chmod(filepath.Dir(part), 0o700); err != nil {
		t.Error(err)
	}
}

// TestFrozenNodeInASharedHome: a node that freezes while the binary is sent to it does not keep
// other nodes from getting the binary.
func TestFrozenNodeInASharedHome(t *testing.T) {
	remotetest.NoLeaks(t)
	home, client := t.TempDir(), testClient(t)
	client.homes.stillness = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	frozen := connect(t, &remotetest.Node{Exec: func(_ string, channel ssh.Channel) int {
		fmt.Fprint(channel, "@@preflight shell\n@@preflight heard\n")
		line, _ := bufio.NewReader(channel).ReadString('\n')
		tag, offer, _ := strings.Cut(strings.TrimSpace(line), " ")
		hash := offer[strings.LastIndex(offer, ":")+1:]
		begin(t, home, hash, tag)
		fmt.Fprintf(channel, "@@preflight need Linux %s gzip %s - /d\n", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], hash)
		<-ctx.Done()
		return -1
	}})
	ended := make(chan *Error, 1)
	go func() {
		_, err := client.bootstrap(ctx, frozen, "w1", &Trace{})
		ended <- err
	}()
	for sending := false; !sending && len(ended) == 0; time.Sleep(10 * time.Millisecond) {
		client.homes.mu.Lock()
		for _, one := range client.homes.of {
			sending = sending || len(one.root().copies) > 0
		}
		client.homes.mu.Unlock()
	}
	trace := &Trace{}
	agent, err := client.bootstrap(ctx, connect(t, &remotetest.Node{Home: home}), "w2", trace)
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	if !trace.Delivered {
		t.Error("it was sent nothing")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the frozen one has an agent")
	}
}

// TestCopyThatIsNotSeen: a node that does not see the copy that another node got is sent its own
// copy.
func TestCopyThatIsNotSeen(t *testing.T) {
	remotetest.NoLeaks(t)
	own, err := Own("linux", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	client, home := testClient(t), t.TempDir()
	defer client.homes.enter("abc")()
	client.homes.of["abc"].arrived[own.Hash] = true
	begin(t, home, own.Hash, "abc")
	trace := &Trace{}
	agent, failure := client.bootstrap(t.Context(), connect(t, &remotetest.Node{Home: home}), "w1", trace)
	if failure != nil {
		t.Fatal(failure)
	}
	agent.Close()
	if !trace.Delivered {
		t.Error("it was sent nothing")
	}
	left, err := filepath.Glob(filepath.Join(home, ".cache/preflight/*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left there: %q (%v)", left, err)
	}
}
