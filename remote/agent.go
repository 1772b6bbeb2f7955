// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// DefaultAgentLife is the maximum life of an agent if Options.AgentLife is 0. The limit matters
// only if the node does not learn that the connection has ended.
const DefaultAgentLife = 15 * time.Minute

// Agent is preflight's program running on a node. Its methods are safe for concurrent use.
type Agent struct {
	Hello Hello
	// Offset is how far the node's wall clock is ahead of the launching machine's. Offset is known
	// to within Uncertainty, which is half of the time between our last message and the agent's
	// hello.
	Offset, Uncertainty time.Duration

	command *command      // only the goroutine of listen reads its stdout
	writing chan struct{} // holds one token: the right to write to stdin
	untie   func() bool
	every   time.Duration // interval between heartbeats
	life    hostsys.Wait  // measures the time since the agent's hello
	busy    atomic.Bool   // what Busy returns

	mu      sync.Mutex
	beating *time.Timer // fires at the next heartbeat
	last    uint64      // ID of the last request
	calls   map[uint64]*call
	leaving bool          // Close was called
	cut     *Error        // why we closed the connection, nil if we did not
	quit    chan struct{} // closed when we have closed the connection

	err  *Error        // why the agent ended; set before dead is closed
	dead chan struct{} // closed when no more answers will come
}

// call is a request that is waiting for its answer. parts has no buffer, so that a slow caller
// slows the node down instead of filling our memory.
type call struct {
	parts     chan answer
	abandoned chan struct{} // closed when the caller no longer listens
}

// ErrNoAnswer is the error of a call to an agent that sends heartbeats but has not answered in
// time. Its machine is busy, or the method hangs. The result of the method is unknown.
var ErrNoAnswer = errors.New("no answer")

// Busy reports whether the agent runs and its last message said that its machine delays it.
func (a *Agent) Busy() bool { return a.busy.Load() }

// NoAnswer returns an error that wraps ErrNoAnswer, for a call that waited for the duration had. It
// adds a note if the launching machine was busy during the wait.
func NoAnswer(method string, had time.Duration, w hostsys.Wait) error {
	why := w.Excuse("the launching machine")
	if why != "" {
		why = "; " + why + ": run preflight again with less load, or with a longer --timeout"
	}
	return fmt.Errorf("%w to %s within %s%s", ErrNoAnswer, method, text.Duration(had.Seconds()), why)
}

// errClosed is the error of a call whose agent was closed before it answered.
var errClosed = errors.New("the agent was closed")

// agent makes an Agent of a delivery that ended with a hello. It sends the agent its node's name
// and its maximum life.
func (d *delivery) agent(hello Hello, o Options) *Agent {
	half := time.Since(d.wrote) / 2
	a := &Agent{
		Hello:       hello,
		Offset:      hello.Time.Sub(d.wrote.Add(half)),
		Uncertainty: half,
		every:       o.Beat,
		life:        hostsys.BeginWait(),
		command:     d.command,
		writing:     make(chan struct{}, 1),
		untie:       func() bool { return true },
		calls:       map[uint64]*call{},
		quit:        make(chan struct{}),
		dead:        make(chan struct{}),
	}
	// Text that the login printed is in the report; text between answers is kept separately.
	d.stdout.noise = &noise{}
	go a.listen(d.ending)
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	a.write(ctx, request{Open: &opening{Node: d.ending.host, Seconds: o.AgentLife.Seconds(), Beat: o.Beat.Seconds()}})
	a.beatLater()
	return a
}

// tieTo makes the agent end with ctx.
func (a *Agent) tieTo(ctx context.Context) {
	a.untie = context.AfterFunc(ctx, func() {
		a.hangUp(a.fail(Interrupted, nil, context.Cause(ctx)))
	})
}

func (a *Agent) fail(cause Cause, detail map[string]string, err error) *Error {
	return &Error{Host: a.command.host, Stage: StageTalk, Cause: cause, Detail: detail, Err: err}
}

// hangUp closes the connection. It stores why; the reason of an earlier call remains.
func (a *Agent) hangUp(why *Error) {
	a.mu.Lock()
	if a.cut == nil {
		a.cut = why
		close(a.quit)
	}
	a.mu.Unlock()
	a.command.client.Close()
}

// Close tells the agent to end, and closes the connection if the agent does not end quickly. The
// error is an *Error if the agent did not end properly or had failed before.
func (a *Agent) Close() error {
	a.untie()
	a.mu.Lock()
	a.leaving = true
	a.mu.Unlock()
	late := time.AfterFunc(closeGrace, func() {
		a.hangUp(a.fail(Frozen, map[string]string{"after": closeGrace.String()}, fmt.Errorf("the agent did not end within %s", closeGrace)))
	})
	defer late.Stop()
	select {
	case a.writing <- struct{}{}: // the token is never returned, because nothing may be written any more
		a.command.stdin.Close() // fails only on a connection that is gone
	case <-a.dead:
	}
	<-a.dead
	if errors.Is(a.err, errClosed) {
		return nil
	}
	return a.err
}

// Call sends one request and passes every part of the answer to each, in order of arrival and one
// at a time. Several calls may be waiting at the same time. A slow each delays the other calls to
// this node. If ctx ends first, Call tells the node to stop the method and returns at once.
//
// The error is an *Error if the node is lost, silent or interrupted, and ErrNoAnswer if the answer
// is late. Any other error comes from the method. Call does not check that a part is JSON.
func (a *Agent) Call(ctx context.Context, method string, params any, each func(part string, body json.RawMessage)) error {
	body, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("parameters of %s: %w", method, err)
	}
	w := hostsys.BeginWait()
	lookout := a.command.client.LookOut(ctx)
	defer lookout.Dismiss()
	c := &call{parts: make(chan answer), abandoned: make(chan struct{})}
	id := a.register(c)
	defer a.unregister(id)
	a.write(ctx, request{ID: id, Method: method, Params: body})
	for {
		select {
		case p := <-c.parts:
			switch {
			case p.Done && p.Err != "":
				return errors.New(text.Escape(p.Err[:min(len(p.Err), maxTail)]))
			case p.Part != "" || !p.Done:
				each(p.Part, p.body)
			}
			if p.Done {
				return nil
			}
		case <-a.dead:
			return a.err
		case <-ctx.Done():
			go a.cancel(id)
			failure := a.late(ctx, method, w)
			if failure == nil {
				return NoAnswer(method, w.Took(), w)
			}
			lookout.Tell(failure)
			return failure
		}
	}
}

// late returns the failure of a call whose ctx ended. It returns nil if only the time ran out,
// while the agent was still sending or one of the two machines was busy.
func (a *Agent) late(ctx context.Context, method string, w hostsys.Wait) *Error {
	e := ending{host: a.command.host, hello: true, acknowledged: true}
	if noise := a.command.stdout.noise.kept(); len(noise) > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return e.nonsense(noise[0])
	}
	isBusy := w.Busy() > 0 || a.life.Busy() > 0 || a.Busy()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && (isBusy || a.command.ear.heard(w, a.every)) {
		return nil
	}
	return e.interrupted(ctx, "answer to "+method, text.Duration(w.Took().Seconds()))
}

func (a *Agent) register(c *call) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	a.calls[a.last] = c
	return a.last
}

func (a *Agent) unregister(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.calls[id]; c != nil {
		delete(a.calls, id)
		close(c.abandoned)
	}
}

// cancel tells the node that no caller waits for the answer to request id any more.
func (a *Agent) cancel(id uint64) {
	ctx, stop := context.WithTimeout(context.Background(), closeGrace)
	defer stop()
	a.write(ctx, request{ID: id, Cancel: true})
}

// write sends one request. It returns no error, because a failure shows up where answers are read.
// If a node accepts no bytes for a while after ctx ended, write closes the connection, because no
// other request may follow half a request.
func (a *Agent) write(ctx context.Context, r request) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // Params was marshalled before, and nothing else can fail
	}
	select {
	case a.writing <- struct{}{}: // even if ctx has ended, because an agent that does not get its node's name answers nothing
	default:
		select {
		case a.writing <- struct{}{}:
		case <-ctx.Done():
			return
		case <-a.dead:
			return
		}
	}
	defer func() { <-a.writing }()
	written := make(chan struct{})
	defer close(written)
	stop := context.AfterFunc(ctx, func() {
		w := hostsys.BeginWait()
		grace, enough := context.WithTimeout(context.Background(), closeGrace)
		defer enough()
		select {
		case <-written:
		case <-grace.Done():
			failure := a.fail(Frozen, map[string]string{"after": closeGrace.String()}, errors.New("the node accepts no request"))
			a.hangUp(failure.excused(w))
		}
	})
	defer stop()
	_, _ = a.command.stdin.Write(append(line, '\n'))
}

// listen passes answers to calls until no more answers come.
func (a *Agent) listen(e ending) {
	defer a.die()
	for {
		line, err := a.command.stdout.next()
		if err == nil {
			err = a.dispatch(line, &e)
		}
		if err != nil {
			a.err = a.conclude(err, e)
			a.busy.Store(false) // an agent that has ended is not busy
			return
		}
	}
}

// dispatch passes one line to the call that the line answers. It drops heartbeats and answers to
// cancelled calls. An answer to a call that never existed is garbage.
func (a *Agent) dispatch(line []byte, e *ending) error {
	var got answer
	header, body, _ := bytes.Cut(line, bodyBehind)
	if err := json.Unmarshal(header, &got); err != nil || got.Node != a.command.host {
		return e.garbage(line)
	}
	got.body = bytes.Clone(body) // the next line overwrites the buffer
	a.busy.Store(got.Busy)
	switch {
	case got.isBeat():
		return nil
	case got.Unheard > 0:
		return a.unheard(got.Unheard)
	}
	a.mu.Lock()
	c, asked := a.calls[got.ID], got.ID > 0 && got.ID <= a.last
	a.mu.Unlock()
	switch {
	case !asked:
		return e.garbage(line)
	case c == nil:
		return nil
	}
	select {
	case c.parts <- got:
	case <-c.abandoned:
	case <-a.quit:
	}
	return nil
}

// conclude returns why the agent ended. err is the error with which reading failed.
func (a *Agent) conclude(err error, e ending) *Error {
	e.exit = a.command.collectExit(err)
	e.noise = a.command.stdout.noise.kept()
	a.mu.Lock()
	cut, leaving := a.cut, a.leaving
	a.mu.Unlock()
	var failure *Error
	hole := a.command.client.Broken()
	switch {
	case cut != nil:
		return cut
	case hole != nil:
		hole.Host, hole.Stage = e.host, StageTalk
		return hole
	case leaving && e.Status == 0 && errors.Is(err, io.EOF):
		return a.fail(Interrupted, nil, errClosed)
	case errors.As(err, &failure):
		return failure
	}
	return e.explain()
}
