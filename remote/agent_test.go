// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts/remotetest"
)

// talking returns an agent on its own node.
func talking(t *testing.T, n *remotetest.Node) *Agent {
	t.Helper()
	agent, _, err := start(t, n, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func TestCallsShareAnAgent(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := talking(t, &remotetest.Node{})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var got []string
			text := fmt.Sprintf("<%d>\n", i)
			err := agent.Call(t.Context(), "echo", text, func(part string, body json.RawMessage) {
				var echoed string
				if err := json.Unmarshal(body, &echoed); err != nil {
					t.Error(err)
				}
				got = append(got, part+echoed)
			})
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"0" + text, "1" + text, "2" + text}, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	all.Wait()
	if err := agent.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if err := agent.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	var lost *Error
	if err := agent.Call(t.Context(), "echo", nil, remotetest.Nothing); !errors.As(err, &lost) || lost.Cause != Interrupted {
		t.Errorf("calling a closed agent: %v, want interrupted", err)
	}
}

// TestMethodsThatFail: an error of a method is not an error of the node.
func TestMethodsThatFail(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := talking(t, &remotetest.Node{})
	for method, c := range map[string]struct{ params, want string }{
		"fail":    {"", `no luck\x1b[31m`},
		"panic":   {"", "panic panicked: oh"},
		"missing": {"", `no method is called "missing"`},
		"big":     {"9000000 1", "part big: larger than the limit of 1 MiB per line"},
	} {
		err := agent.Call(t.Context(), method, c.params, remotetest.Nothing)
		var lost *Error
		if err == nil || errors.As(err, &lost) || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", method, err, c.want)
		}
	}
}

// TestDeadAgentHasNoBeat: a pending heartbeat would keep a dead agent and its connection in memory.
func TestDeadAgentHasNoBeat(t *testing.T) {
	agent := talking(t, &remotetest.Node{})
	if err := agent.Close(); err != nil {
		t.Fatal(err)
	}
	agent.mu.Lock()
	defer agent.mu.Unlock()
	if agent.beating.Stop() {
		t.Error("a beat was to come")
	}
}

func TestEnvironmentOfAnAgent(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := talking(t, &remotetest.Node{Env: []string{"LD_BIND_NOW=1", "GOGC=50"}})
	var got []string
	if err := agent.Call(t.Context(), "environment", nil, func(_ string, body json.RawMessage) {
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got, "\n") + "\n"
	for _, want := range []string{"GOMAXPROCS=1\n", "GOGC=off\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "LD_BIND_NOW") {
		t.Errorf("LD_BIND_NOW is set in\n%s", all)
	}
}

func TestAgentsThatEndUnderACall(t *testing.T) {
	remotetest.NoLeaks(t)
	brief := 2 * time.Second
	for name, c := range map[string]struct {
		method, params string
		limit          time.Duration // time limit of the call; 0 means a long limit
		deaf           bool

		cause  Cause
		detail map[string]string
	}{
		"exits":          {method: "exit", cause: AgentExited, detail: map[string]string{"status": "3", "stderr": "last words"}},
		"killed":         {method: "killed", cause: AgentKilled, detail: map[string]string{"signal": "KILL"}},
		"stopped":        {method: "stop", limit: brief, cause: Frozen},
		"nonsense":       {method: "print", params: "@@preflight nonsense\n", cause: Garbage, detail: map[string]string{"text": "nonsense"}},
		"another's name": {method: "print", params: `@@preflight {"node":"w2","id":1,"done":true}` + "\n", cause: Garbage, detail: map[string]string{"text": "w2"}},
		"never asked":    {method: "print", params: `@@preflight {"node":"w1","id":99,"done":true}` + "\n", cause: Garbage, detail: map[string]string{"text": "99"}},
		"hello again":    {method: "print", params: `@@preflight {"hello":{}}` + "\n", cause: Garbage},
		"cut":            {method: "printed", params: `@@preflight {"node":"w1","id":1,"par`, cause: Truncated},
		"prose, ends":    {method: "printed", params: "I am\x1b[2J a teapot\n", cause: Garbage, detail: map[string]string{"text": `I am\x1b[2J a teapot`}},
		"long prose":     {method: "print", params: strings.Repeat("prose\n", 20000), cause: TooMuch, detail: map[string]string{"limit": "64 KiB"}},
		"long line":      {method: "print", params: "@@preflight " + strings.Repeat("x", maxLine), cause: TooMuch, detail: map[string]string{"limit": "1 MiB in one line"}},
		"long answer":    {method: "big", params: "200000 1000", cause: TooMuch, detail: map[string]string{"limit": "8 MiB"}},
		"long messages":  {method: "stderr", cause: TooMuch, detail: map[string]string{"limit": "8 MiB of messages"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := talking(t, &remotetest.Node{Deaf: c.deaf})
			if c.limit == 0 {
				c.limit = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			began := time.Now()
			err := agent.Call(ctx, c.method, c.params, remotetest.Nothing)
			took := time.Since(began)
			if took > c.limit+remotetest.Slack {
				t.Errorf("took %s of %s", took, c.limit)
			}
			var lost *Error
			if !errors.As(err, &lost) || lost.Stage != StageTalk || lost.Cause != c.cause || lost.Host != "w1" {
				t.Fatalf("got %v, want talk: %s", err, c.cause)
			}
			if c.cause == Frozen && !remotetest.Lasted(lost.Detail["after"], c.limit, took) {
				t.Errorf("detail after is %q, the limit was %s", lost.Detail["after"], c.limit)
			}
			for key, part := range c.detail {
				if !strings.Contains(lost.Detail[key], part) {
					t.Errorf("detail %s is %q, want …%s…", key, lost.Detail[key], part)
				}
			}
			if c.limit > brief {
				if again := agent.Call(t.Context(), "echo", nil, remotetest.Nothing); !errors.Is(again, err) {
					t.Errorf("the next call got %v, want %v", again, err)
				}
			}
		})
	}
}

// TestProseBetweenAnswers: text between answers comes from a stray background job. It does no harm
// while answers come. If they do not come, the text explains why.
func TestProseBetweenAnswers(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := talking(t, &remotetest.Node{})
	if err := agent.Call(t.Context(), "print", "job done\nhalf a line", remotetest.Nothing); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := agent.Call(ctx, "child", nil, remotetest.Nothing)
	var lost *Error
	if !errors.As(err, &lost) || lost.Cause != Garbage || lost.Detail["text"] != "job done" {
		t.Errorf("got %v, want garbage: job done", err)
	}
}

// child starts a process on the node under ctx and returns its PID. The call is then still waiting.
func child(t *testing.T, ctx context.Context, agent *Agent) (pid int, ended chan error) {
	t.Helper()
	started := make(chan int, 1)
	ended = make(chan error, 1)
	go func() {
		ended <- agent.Call(ctx, "child", nil, func(_ string, body json.RawMessage) {
			var pid int
			if err := json.Unmarshal(body, &pid); err != nil {
				t.Error(err)
			}
			started <- pid
		})
	}()
	select {
	case pid = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	return pid, ended
}

// TestNothingStaysBehind: however a call ends, it leaves nothing on the node.
func TestNothingStaysBehind(t *testing.T) {
	remotetest.NoLeaks(t)
	for name, end := range map[string]func(agent *Agent, cancelCall, cancelReach func()){
		"call given up":   func(_ *Agent, cancelCall, _ func()) { cancelCall() },
		"agent closed":    func(agent *Agent, _, _ func()) { agent.Close() },
		"connection lost": func(agent *Agent, _, _ func()) { agent.command.client.Close() },
		"run interrupted": func(_ *Agent, _, cancelReach func()) { cancelReach() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := talking(t, &remotetest.Node{})
			reach, cancelReach := context.WithCancel(t.Context())
			agent.tieTo(reach)
			call, cancelCall := context.WithCancel(t.Context())
			defer cancelCall()
			pid, ended := child(t, call, agent)
			agent.busy.Store(true) // as if its last message said so
			end(agent, cancelCall, cancelReach)
			remotetest.Gone(t, pid)
			err := <-ended
			want := map[string]Cause{"connection lost": ConnectionLost, "call given up": Interrupted, "run interrupted": Interrupted}[name]
			var lost *Error
			if err == nil || want != "" && (!errors.As(err, &lost) || lost.Cause != want) {
				t.Errorf("the call ended with %v, want %s", err, want)
			}
			if name == "connection lost" && agent.Busy() {
				t.Error("an agent that has ended is busy")
			}
			if name != "call given up" {
				remotetest.Gone(t, agent.Hello.PID)
			} else if err := agent.Call(t.Context(), "echo", nil, remotetest.Nothing); err != nil {
				t.Errorf("the agent is lost with one of its calls: %v", err)
			}
			cancelReach()
		})
	}
}

// beating returns an agent on its own node, with heartbeats at the given interval in both
// directions.
func beating(t *testing.T, n *remotetest.Node, every time.Duration) *Agent {
	t.Helper()
	client := testClient(t)
	client.options.Beat = every
	agent, failure := client.bootstrap(t.Context(), connect(t, n), "w1", &Trace{})
	if failure != nil {
		t.Fatal(failure)
	}
	t.Cleanup(func() { agent.Close() })
	return agent
}

// TestSilentHead: an agent that gets no heartbeats ends together with its children, and reports
// why.
func TestSilentHead(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := beating(t, &remotetest.Node{}, time.Second) // a busy machine stands still for less than half of the agent's patience
	pid, ended := child(t, t.Context(), agent)
	agent.writing <- struct{}{} // takes the token, so that nothing more is sent
	err := <-ended
	remotetest.Gone(t, pid)
	remotetest.Gone(t, agent.Hello.PID)
	var lost *Error
	if !errors.As(err, &lost) || lost.Cause != ConnectionLost || !strings.Contains(lost.Error(), "lost on the way") {
		t.Errorf("got %v", err)
	}
}

// TestSilentNode: if neither the agent nor its SSH server sends anything, the node is given up
// before the deadline of the call. If the server answers, the deadline decides.
func TestSilentNode(t *testing.T) {
	remotetest.NoLeaks(t)
	for name, deaf := range map[string]bool{"frozen": true, "busy": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := beating(t, &remotetest.Node{Deaf: deaf}, 100*time.Millisecond)
			limit := map[bool]time.Duration{true: time.Minute, false: headPatience*agent.every + verdictTime + time.Second}[deaf]
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			var lost *Error
			err := agent.Call(ctx, "stop", nil, remotetest.Nothing)
			if !errors.As(err, &lost) || (ctx.Err() == nil) != deaf || deaf && lost.Cause != Frozen {
				t.Errorf("got %v, want it before the deadline: %v", err, deaf)
			}
			_ = syscall.Kill(agent.Hello.PID, syscall.SIGKILL)
		})
	}
}

// TestLateIsNotLost: a late call says nothing about a node whose agent has sent something since the
// call began.
func TestLateIsNotLost(t *testing.T) {
	remotetest.NoLeaks(t)
	agent := beating(t, &remotetest.Node{}, time.Minute) // the interval is longer than any test, so that one message counts until the end
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, ended := child(t, ctx, agent) // the call has already got part of its answer
	err := <-ended
	if lost := (*Error)(nil); !errors.Is(err, ErrNoAnswer) || errors.As(err, &lost) {
		t.Errorf("got %v, want %v of it", err, ErrNoAnswer)
	}
	if err := agent.Call(t.Context(), "echo", nil, remotetest.Nothing); err != nil {
		t.Errorf("the next call got %v", err)
	}
}

// TestAgentLife: an agent whose launching machine falls silent ends by its own clock.
func TestAgentLife(t *testing.T) {
	remotetest.NoLeaks(t)
	client := testClient(t)
	client.options.AgentLife = 300 * time.Millisecond
	agent, failure := client.bootstrap(t.Context(), connect(t, &remotetest.Node{}), "w1", &Trace{})
	if failure != nil {
		t.Fatal(failure)
	}
	pid, ended := child(t, t.Context(), agent)
	remotetest.Gone(t, pid)
	remotetest.Gone(t, agent.Hello.PID)
	<-ended
	var lost *Error
	if err := agent.Close(); !errors.As(err, &lost) || lost.Cause != AgentExited || !strings.Contains(lost.Detail["stderr"], "time is up") {
		t.Errorf("got %v, want agent-exited: time is up", err)
	}
}

// TestClockOffset checks that a machine's clock is not ahead of itself. That must also hold if this
// side notices its own write long after the node has answered.
func TestClockOffset(t *testing.T) {
	remotetest.NoLeaks(t)
	node := &remotetest.Node{}
	talking(t, node)
	for name, conn := range map[string]Connection{"at once": connect(t, node), "late": slowConnection{connect(t, node)}} {
		agent, err := testClient(t).bootstrap(t.Context(), conn, "w1", &Trace{})
		if err != nil {
			t.Fatal(err)
		}
		if off := agent.Offset.Abs(); off > agent.Uncertainty {
			t.Errorf("%s: this machine's clock is %s ahead of itself, uncertain by %s", name, off, agent.Uncertainty)
		}
		agent.Close()
	}
}

// slowConnection is a connection to a node that has the agent. Its writes return after the agent's
// hello.
type slowConnection struct{ Connection }

func (c slowConnection) Start(command string, stderr io.Writer) (*Process, *Error) {
	process, failure := c.Connection.Start(command, stderr)
	if failure == nil {
		output := bufio.NewReader(process.Stdout)
		process.Stdout, process.Stdin = output, &slowWriter{process.Stdin, output}
	}
	return process, failure
}

// slowWriter delays its first write.
type slowWriter struct {
	io.WriteCloser
	said *bufio.Reader // nil after the first write
}

func (w *slowWriter) Write(piece []byte) (int, error) {
	n, err := w.WriteCloser.Write(piece)
	for length := 1; w.said != nil && err == nil; length++ {
		if text, failed := w.said.Peek(length); failed != nil || strings.Contains(string(text), `"hello"`) {
			break
		}
	}
	w.said = nil
	return n, err
}
