// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"preflight/hostfile"
	"preflight/remote"
	"preflight/testhosts/carriertest"
	"preflight/testhosts/remotetest"
)

const token = "a token that nobody guesses"

// patience is how long nodes wait. If two nodes were confused with each other, both would wait this
// long for a verdict.
const patience = 20 * time.Second

// TestMain makes the test binary a node that calls, if it gets an address and a name. The test
// reads its output.
func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != "call" {
		os.Exit(m.Run())
	}
	_, _ = Call(context.Background(), os.Args[2], os.Args[3], token, carriertest.Printing(func(in io.Reader, out io.Writer) error {
		return remote.Serve(context.Background(), in, out, methods())
	}))
}

func TestFaults(t *testing.T) {
	carriertest.Faults(t, carriertest.Stand{Calls: true, Open: func(t *testing.T, logins map[string]string) remote.Carrier {
		var names []string
		for name := range logins {
			names = append(names, name)
		}
		carrier := listen(t, names...)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for name, login := range logins {
			calling := exec.Command(login, self, "call", carrier.Address().String(), name)
			if err := calling.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = calling.Process.Kill() // the process may have ended by itself
				_ = calling.Wait()
			})
		}
		return carrier
	}})
}

func methods() map[string]remote.Method {
	methods := map[string]remote.Method{}
	for name, method := range remotetest.Methods {
		methods[name] = method
	}
	return methods
}

func listen(t *testing.T, names ...string) *Carrier {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]string{}
	for _, name := range names {
		called[name] = hostfile.Bare(name)
	}
	return Listen(listener, token, called)
}

// judge returns a carrier that expects the named nodes, for the duration of a test.
func judge(t *testing.T, timeout time.Duration, names ...string) (*Carrier, *remote.Client) {
	t.Helper()
	carrier := listen(t, names...)
	client := remote.New(carrier, remote.Options{Timeout: timeout})
	t.Cleanup(func() {
		client.Close()
		remotetest.NoLeaks(t)
	})
	return carrier, client
}

// outcome says how a node's call ended.
type outcome struct {
	Verdict
	err error
}

// node connects to the carrier, and answers as an agent does.
func node(t *testing.T, c *Carrier, name, token string) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	go func() {
		v, err := Call(ctx, c.Address().String(), name, token, func(in io.Reader, out io.Writer) error {
			return remote.Serve(ctx, in, out, methods())
		})
		done <- outcome{v, err}
	}()
	return done
}

func TestTalk(t *testing.T) {
	carrier, client := judge(t, time.Minute, "w1", "root@w2")
	var ends []<-chan outcome
	for _, name := range []string{"w1", "w2"} {
		ends = append(ends, node(t, carrier, name, token))
	}
	for _, name := range []string{"w1", "root@w2"} {
		agent, trace, err := client.Reach(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if trace.Carrier != Name || trace.Address != "127.0.0.1" || trace.Delivered {
			t.Errorf("%+v", trace)
		}
		long, answer := strings.Repeat("x", 100_000), ""
		err = agent.Call(t.Context(), "echo", long, func(_ string, body json.RawMessage) { answer += string(body) })
		if err != nil || !strings.Contains(answer, long) {
			t.Errorf("%v, answered %d bytes", err, len(answer))
		}
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}
	carrier.Conclude(Verdict{Go: true, Why: "all is well\x1b[31m"})
	for _, end := range ends {
		if got := <-end; got.err != nil || !got.Go || got.Why != `all is well\x1b[31m` {
			t.Errorf("%+v", got)
		}
	}
}

// TestFailures: both sides report why a node cannot be examined.
func TestFailures(t *testing.T) {
	const soon = time.Second
	for _, test := range []struct {
		name    string
		call    func(*testing.T, *Carrier) string // returns the answer that the last caller got
		cause   remote.Cause
		message string
		told    string
	}{
		{"nobody", func(*testing.T, *Carrier) string { return "" }, remote.NotCome, "no call at 127.0.0.1:", ""},
		{"another token", func(t *testing.T, c *Carrier) string { return (<-node(t, c, "w1", "another, and as long")).err.Error() },
			remote.WrongToken, "the call came from 127.0.0.1:", "the tokens differ"},
		{"another name", func(t *testing.T, c *Carrier) string { return (<-node(t, c, "w9\x1b", token)).err.Error() },
			remote.NotCome, "1 calls came that were not from a node", `w9\x1b is not a host of this run`},
		{"two of a name", func(t *testing.T, c *Carrier) string {
			one, other := node(t, c, "w1", token), node(t, c, "w1", token)
			select {
			case refused := <-one:
				return refused.err.Error()
			case refused := <-other:
				return refused.err.Error()
			}
		}, remote.NameTwice, "from 127.0.0.1:", "another node has used this name"},
		{"another release", func(t *testing.T, c *Carrier) string { return says(t, c, `{"wire":7,"node":"w1","nonce":"x"}`) },
			remote.NotCome, "1 calls came that were not from a node", "this preflight uses protocol 2, and the node uses 7"},
		{"a stranger", func(t *testing.T, c *Carrier) string { return says(t, c, "GET / HTTP/1.1") }, remote.NotCome, "1 calls came that were not from a node", ""},
		{"no end", func(t *testing.T, c *Carrier) string { return says(t, c, strings.Repeat("x", 2*maxCall)) }, remote.NotCome, "1 calls came that were not from a node", ""},
		{"replayed", func(t *testing.T, c *Carrier) string {
			return says(t, c, `{"wire":2,"node":"w1","nonce":"x"}`+"\n"+`{"proof":"`+proofOf(token, "node", hello{Node: "w1", Nonce: "x"}, challenge{Nonce: "y"})+`"}`)
		}, remote.WrongToken, "the call came from", "the tokens differ"},
	} {
		t.Run(test.name, func(t *testing.T) {
			carrier, client := judge(t, soon, "w1")
			began := time.Now()
			if told := test.call(t, carrier); !strings.Contains(told, test.told) {
				t.Errorf("told %q", told)
			}
			_, _, err := client.Reach(t.Context(), "w1")
			failure, ok := errors.AsType[*remote.Error](err)
			if !ok || failure.Host != "w1" || failure.Cause != test.cause || !strings.Contains(failure.Err.Error(), test.message) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 2*soon+remotetest.Slack {
				t.Errorf("took %v", took)
			}
		})
	}
}

// says sends text to the launching machine and returns its whole answer.
func says(t *testing.T, c *Carrier, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", c.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, text+"\n") // the other side may have closed the connection before the end
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// TestFalseJudge: a node sends nothing to a server that does not know the token.
func TestFalseJudge(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		l := newLine(conn)
		var h hello
		var p proof
		_ = l.receive(&h)
		_ = l.send(challenge{Wire: wire, Nonce: "n"})
		_ = l.receive(&p)
		_ = l.send(p) // sends the node's own proof back
		_, _ = io.Copy(io.Discard, conn)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = Call(ctx, listener.Addr().String(), "w1", token, func(io.Reader, io.Writer) error {
		t.Error("it was answered")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "does not know the token") {
		t.Errorf("%v", err)
	}
}

// TestNoVerdict: if the launching machine ends without a verdict, or was never there, no node
// launches.
func TestNoVerdict(t *testing.T) {
	carrier, client := judge(t, time.Minute, "w1")
	end := node(t, carrier, "w1", token)
	agent, _, err := client.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	client.Close()
	if got := <-end; got.err == nil || !strings.Contains(got.err.Error(), "without a verdict") {
		t.Errorf("%+v", got)
	}
	if got := <-node(t, carrier, "w1", token); !errors.Is(got.err, ErrNotYet) {
		t.Errorf("%+v", got)
	}
	if got := <-node(t, carrier, "w1", "short"); got.err == nil || !strings.Contains(got.err.Error(), "needs at least") {
		t.Errorf("%+v", got)
	}
}

// TestLost: a node that is lost in the middle of an answer is reported as lost.
func TestLost(t *testing.T) {
	carrier, client := judge(t, time.Minute, "w1")
	l, err := net.Dial("tcp", carrier.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	one := newLine(l)
	if err := one.introduce("w1", token); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(l, `@@preflight {"hello":{"os":"linux"}}`+"\n")
	agent, _, err := client.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = agent.Call(t.Context(), "echo", "x", remotetest.Nothing)
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.ConnectionLost {
		t.Errorf("%v", err)
	}
	agent.Close()
}

// TestFrozen: a node that falls silent after authentication costs only its own time limit, and
// still gets the verdict.
func TestFrozen(t *testing.T) {
	carrier, client := judge(t, time.Second, "w1")
	l, err := net.Dial("tcp", carrier.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one := newLine(l)
	if err := one.introduce("w1", token); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, _, err = client.Reach(t.Context(), "w1")
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.Frozen {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > time.Second+remotetest.Slack {
		t.Errorf("took %v", took)
	}
	_ = l.SetDeadline(time.Now().Add(patience))
	go carrier.Conclude(Verdict{Why: "w1 hangs"})
	if v, err := one.verdict(); err != nil || v.Go || v.Why != "w1 hangs" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestInterrupted(t *testing.T) {
	_, client := judge(t, time.Minute, "w1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := client.Reach(ctx, "w1")
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.Interrupted {
		t.Errorf("%v", err)
	}
}
