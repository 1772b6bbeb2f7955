// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts/remotetest"
)

// conversation is a Serve to which the test is connected over pipes.
type conversation struct {
	in    *io.PipeWriter
	lines *lineReader
	ended chan error
}

func converse(t *testing.T, ctx context.Context, methods map[string]Method) *conversation {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &conversation{in: inW, lines: newLineReader(outR), ended: make(chan error, 1)}
	go func() {
		c.ended <- Serve(ctx, inR, outW, methods)
		outW.Close()
		inR.Close()
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
	})
	if got := c.next(t); !strings.HasPrefix(got, `{"hello":{"build":"`+ownBuildID()+`","os":"linux"`) {
		t.Errorf("the first line is %s, want a hello", got)
	}
	return c
}

func (c *conversation) next(t *testing.T) string {
	t.Helper()
	line, err := c.lines.next()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(line), `,"busy":true`, "", 1) // whether the agent is busy depends on this machine, not on the test
}

func (c *conversation) say(lines ...string) {
	for _, line := range lines {
		io.WriteString(c.in, line+"\n")
	}
}

func TestServe(t *testing.T) {
	remotetest.NoLeaks(t)
	c := converse(t, t.Context(), map[string]Method{
		"parts": func(_ context.Context, params json.RawMessage, reply Reply) error {
			return errors.Join(reply("given", params, false), reply("tag", []byte(`"\u003cb\u003e\u001e"`), false))
		},
		"wait": func(ctx context.Context, _ json.RawMessage, _ Reply) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"once": func(_ context.Context, _ json.RawMessage, reply Reply) error {
			return reply("all", []byte("1"), true)
		},
	})
	c.say(`{"open":{"node":"w1","seconds":60}}`, `{"id":1,"method":"wait"}`, `{"id":2,"method":"parts","params":{"a":1}}`)
	want := []string{
		`{"node":"w1","id":2,"part":"given"}` + "\t" + `{"a":1}`,
		`{"node":"w1","id":2,"part":"tag"}` + "\t" + `"\u003cb\u003e\u001e"`,
		`{"node":"w1","id":2,"done":true}`,
	}
	for _, want := range want {
		if diff := cmp.Diff(want, c.next(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	c.say(`{"id":7,"cancel":true}`, `{"id":1,"cancel":true}`)
	if got, want := c.next(t), `{"node":"w1","id":1,"done":true,"error":"context canceled"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.say(`{"id":4,"method":"once"}`)
	if got, want := c.next(t), `{"node":"w1","id":4,"part":"all","done":true}`+"\t1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.in.Close()
	if err := <-c.ended; err != nil {
		t.Errorf("the end of its input made Serve say %v", err)
	}
}

func TestServeEnds(t *testing.T) {
	remotetest.NoLeaks(t)
	for name, c := range map[string]struct {
		end  func(c *conversation, cancel func())
		want string
	}{
		"input ends":  {func(c *conversation, _ func()) { c.in.Close() }, "<nil>"},
		"head silent": {func(c *conversation, _ func()) { c.say(`{"open":{"node":"w1","seconds":60,"beat":0.02}}`) }, "nothing came from the launching machine for 300 ms"},
		"life over":   {func(c *conversation, _ func()) { c.say(`{"open":{"node":"w1","seconds":0.1}}`) }, "the agent's time is up"},
		"interrupted": {func(_ *conversation, cancel func()) { cancel() }, "context canceled"},
		"not JSON":    {func(c *conversation, _ func()) { c.say("hello?") }, "a malformed request: invalid character"},
		"read fails":  {func(c *conversation, _ func()) { c.in.CloseWithError(errors.New("unplugged")) }, "reading requests: unplugged"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			running, stopped := make(chan struct{}), make(chan struct{})
			conversation := converse(t, ctx, map[string]Method{
				"wait": func(ctx context.Context, _ json.RawMessage, _ Reply) error {
					close(running)
					<-ctx.Done()
					time.Sleep(50 * time.Millisecond) // the method takes a moment to finish
					close(stopped)
					return nil
				},
			})
			conversation.say(`{"id":1,"method":"wait"}`)
			<-running
			go io.Copy(io.Discard, conversation.lines.in)
			c.end(conversation, cancel)
			if got := <-conversation.ended; !strings.HasPrefix(errorText(got), c.want) {
				t.Errorf("got %v, want %s", got, c.want)
			}
			select {
			case <-stopped:
			default:
				t.Error("the method was not cancelled, or not waited for")
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

// TestServeBeats: an agent sends heartbeats and lives as long as its launching machine. Its last
// line says why it ends.
func TestServeBeats(t *testing.T) {
	remotetest.NoLeaks(t)
	c := converse(t, t.Context(), nil)
	c.say(`{"open":{"node":"w1","seconds":60,"beat":0.1}}`)
	for range 3 * patience {
		if got := c.next(t); got != `{"node":"w1","id":0}` {
			t.Fatalf("got %s, want a beat", got)
		}
		c.say(string(bytes.TrimSpace(beatLine)))
	}
	got := c.next(t)
	for ; got == `{"node":"w1","id":0}`; got = c.next(t) { // there are more heartbeats than its patience if this machine is busy
	}
	if want := `{"node":"w1","id":0,"unheard":1.5}`; got != want {
		t.Errorf("the last line is %s, want %s", got, want)
	}
	if err := <-c.ended; err == nil {
		t.Error("Serve ended as if its input had")
	}
}

// TestServeEndsThoughNobodyReads: a stopped launching machine reads nothing. An answer that is not
// read must not keep an agent from noticing that, whatever requests arrive meanwhile.
func TestServeEndsThoughNobodyReads(t *testing.T) {
	c := converse(t, t.Context(), map[string]Method{
		"talk": func(_ context.Context, _ json.RawMessage, reply Reply) error {
			return reply("p", []byte(`"nobody reads this"`), false)
		},
	})
	c.say(`{"open":{"node":"w1","seconds":60,"beat":0.02}}`, `{"id":1,"method":"talk"}`, `{"id":2,"method":"talk"}`, `{"id":2,"cancel":true}`, `{"id":3,"method":"talk"}`)
	if err := <-c.ended; err == nil || !strings.Contains(err.Error(), "nothing came") {
		t.Errorf("ended with %v", err)
	}
}

// TestEar checks that only heartbeats missed while a reader is waiting count, and not elapsed time.
func TestEar(t *testing.T) {
	in, out := io.Pipe()
	e := &ear{in: in, patience: patience}
	beats := func(n int) (silent bool) {
		for range n {
			silent = e.beat(time.Hour)
		}
		return silent
	}
	if beats(2 * patience) {
		t.Error("silent although nobody listened")
	}
	hears := make(chan struct{})
	go func() {
		defer close(hears)
		io.Copy(io.Discard, e)
	}()
	for !e.listening.Load() {
		runtime.Gosched()
	}
	if beats(patience-1) || !beats(1) {
		t.Errorf("not silent after exactly %d beats", patience)
	}
	io.WriteString(out, "x")
	for e.received.Load() == 0 || !e.listening.Load() {
		runtime.Gosched()
	}
	if beats(patience) || !beats(1) {
		t.Errorf("not silent after exactly %d beats from the last byte", patience)
	}
	out.Close()
	<-hears
}

// TestServeAbandonsStuckMethods: a method that is stuck in a system call does not keep the agent
// alive.
func TestServeAbandonsStuckMethods(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	c := converse(t, t.Context(), map[string]Method{
		"stuck": func(context.Context, json.RawMessage, Reply) error {
			<-free
			return nil
		},
	})
	go io.Copy(io.Discard, c.lines.in)
	c.say(`{"id":1,"method":"stuck"}`)
	c.in.Close()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(drainGrace + 10*time.Second):
		t.Error("still running")
	}
}

// TestServeEndsWhenNobodyListens: if the launching machine is gone, writing an answer fails and
// ends the agent.
func TestServeEndsWhenNobodyListens(t *testing.T) {
	remotetest.NoLeaks(t)
	in, requests := io.Pipe()
	defer requests.Close()
	broken := errors.New("broken pipe")
	failing := &failingWriter{err: broken, after: 1}
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), in, failing, nil)
		in.Close()
	}()
	io.WriteString(requests, `{"id":1,"method":"any"}`+"\n")
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := Serve(t.Context(), strings.NewReader(""), failing, nil); !errors.Is(err, broken) {
		t.Errorf("greeting nobody: %v, want %v", err, broken)
	}
}

// failingWriter fails after a number of writes.
type failingWriter struct {
	err   error
	after int
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// TestServeTellsNoSecret: a possible secret does not leave a node, neither in facts nor in errors.
func TestServeTellsNoSecret(t *testing.T) {
	c := converse(t, t.Context(), map[string]Method{
		"look": func(_ context.Context, _ json.RawMessage, reply Reply) error {
			return errors.Join(reply("env", []byte(`{"proxy":"http://me:hunter2@proxy:3128","x":"\u003c?token=hunter2\u003e"}`), false), errors.New("password=hunter2 is wrong"))
		},
	})
	c.say(`{"open":{"node":"w1","seconds":60}}`, `{"id":1,"method":"look"}`)
	for _, want := range []string{
		`{"node":"w1","id":1,"part":"env"}` + "\t" + `{"proxy":"http://…@proxy:3128","x":"\u003c?token=…\u003e"}`,
		`{"node":"w1","id":1,"done":true,"error":"password=… is wrong"}`,
	} {
		if got := c.next(t); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestPatience checks three limits. An agent survives a launching machine that is stopped for less
// than half a minute. It does not outlive the launching machine for much longer. And a carrier has
// time to find out what is wrong with a silent node.
func TestPatience(t *testing.T) {
	if wait := patience * DefaultBeat; wait < 30*time.Second || wait+drainGrace >= 35*time.Second {
		t.Errorf("an agent waits for a silent head for %s", wait)
	}
	if verdictTime >= headPatience*DefaultBeat {
		t.Error("a node is given up before its carrier can say why")
	}
}
