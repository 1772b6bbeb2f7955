// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/secret"
	"preflight/internal/text"
)

// Method is a request that an agent can answer. It passes every part of its answer to reply as soon
// as that part is ready. It may call reply from several goroutines, but not after it has returned.
//
// The context ends when the caller gives up, when the connection ends and when the agent's life is
// over. A method must then end its children too.
type Method func(ctx context.Context, params json.RawMessage, reply Reply) error

// Reply sends one part of an answer, as JSON. The line of the last part also ends the answer. Some
// programs carry the lines of many nodes, and with them a second line may wait until the first is
// acknowledged. If Reply returns ErrOversize, only this part failed.
type Reply = func(part string, body json.RawMessage, last bool) error

// ErrOversize is the error for a part that is too large for one line of the wire format.
var ErrOversize = fmt.Errorf("larger than the limit of %d MiB per line", maxLine>>20)

const (
	// drainGrace is how long methods get to finish after the agent's life is over. After that time,
	// methods that are stuck in a system call are abandoned.
	drainGrace = 2 * time.Second
)

// Serve runs an agent. It says hello on out, then answers the requests on in, several at the same
// time. It returns nil when in ends. Otherwise it returns the reason: the agent's time was up,
// nothing came for too long, ctx ended, or one of the streams broke. Before it returns, Serve
// cancels the methods and waits for them.
//
// Serve does not close in. If Serve ends before in does, it leaves a goroutine that reads in until
// the caller closes in or exits.
func Serve(ctx context.Context, in io.Reader, out io.Writer, methods map[string]Method) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer hostsys.Watch()()
	s := &server{out: out, methods: methods, end: cancel, wait: hostsys.BeginWait(), running: map[uint64]context.CancelFunc{}}
	if err := s.greet(); err != nil {
		return err
	}
	requests := make(chan request)
	head := &ear{in: in, patience: patience}
	go func() { cancel(readRequests(ctx, head, requests)) }()
	s.serve(ctx, requests, head)
	cancel(nil)
	if silent, ok := errors.AsType[*unheard](context.Cause(ctx)); ok {
		// The line is sent in the background, because the write blocks if the connection is cut.
		s.working.Go(func() { _ = s.send(answer{Unheard: time.Duration(*silent).Seconds()}) })
	}
	s.drain()
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// ownHello returns the hello of this process.
func ownHello() Hello {
	h := Hello{
		Build: ownBuildID(),
		OS:    runtime.GOOS,
		Arch:  runtime.GOARCH,
		PID:   os.Getpid(),
	}
	// Errors are ignored, because a machine without a name, or a binary whose path cannot be read,
	// can still be used.
	h.Host, _ = os.Hostname()
	h.Path, _ = os.Executable()
	h.Time = time.Now()
	return h
}

// readRequests passes on the lines of in until ctx or in ends. It never returns nil.
func readRequests(ctx context.Context, in io.Reader, requests chan<- request) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("a malformed request: %w", err)
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading requests: %w", err)
	}
	return io.EOF
}

// unheard is the error of an agent that has received nothing from the launching machine for the
// given duration.
type unheard time.Duration

func (u *unheard) Error() string {
	return "nothing came from the launching machine for " + text.Duration((time.Duration(*u)).Seconds())
}

// server is the state of a running agent.
type server struct {
	methods map[string]Method
	end     context.CancelCauseFunc
	working sync.WaitGroup

	writing sync.Mutex // held while a write blocks
	out     io.Writer

	mu      sync.Mutex // guards the fields below
	node    string
	wait    hostsys.Wait // measures the time since the last heartbeat
	busy    bool         // this machine was busy during the wait before the last heartbeat
	running map[uint64]context.CancelFunc
}

// serve starts and stops methods as requests demand, until ctx ends. It never waits for the
// launching machine to read.
func (s *server) serve(ctx context.Context, requests <-chan request, head *ear) {
	life := time.NewTimer(DefaultAgentLife)
	defer life.Stop()
	every := DefaultBeat
	beat := time.NewTicker(every) // drops ticks that are not received, as ear explains
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-life.C:
			s.end(errors.New("the agent's time is up"))
			return
		case <-beat.C:
			if head.beat(every) {
				silence := unheard(patience * every)
				s.end(&silence)
				return
			}
			s.mu.Lock()
			s.busy, s.wait = s.wait.Busy() > 0, hostsys.BeginWait()
			s.mu.Unlock()
			go s.beat()
		case r := <-requests:
			switch {
			case r.Open != nil:
				life.Reset(time.Duration(r.Open.Seconds * float64(time.Second)))
				if r.Open.Beat > 0 {
					every = time.Duration(r.Open.Beat * float64(time.Second))
					beat.Reset(every)
				}
				s.mu.Lock()
				s.node = r.Open.Node
				s.mu.Unlock()
			case r.ID == 0: // a heartbeat
			case r.Cancel:
				s.stop(r.ID)
			default:
				s.start(ctx, r)
			}
		}
	}
}

// start runs a method in a goroutine of its own.
func (s *server) start(ctx context.Context, r request) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.running[r.ID] = cancel
	s.mu.Unlock()
	s.working.Go(func() {
		defer s.stop(r.ID)
		done := answer{ID: r.ID, Done: true}
		answered, err := s.call(ctx, r)
		if err != nil {
			done.Err = secret.Hide(err.Error())
		}
		if !answered {
			_ = s.send(done) // a broken stream has ended the agent already
		}
	})
}

// stop cancels request id if it is still being answered.
func (s *server) stop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[id]; cancel != nil {
		cancel()
		delete(s.running, id)
	}
}

// call runs one method. A panic makes only that method fail. done reports whether the answer has
// ended.
func (s *server) call(ctx context.Context, r request) (done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", r.Method, p)
		}
	}()
	method := s.methods[r.Method]
	if method == nil {
		return false, fmt.Errorf("no method is called %q", r.Method)
	}
	err = method(ctx, r.Params, func(part string, body json.RawMessage, last bool) error {
		if err := s.send(answer{ID: r.ID, Part: part, Done: last, body: secret.HideJSON(body)}); err != nil {
			return fmt.Errorf("part %s: %w", part, err)
		}
		if last {
			done = true
		}
		return nil
	})
	return done, err
}

// greet sends the hello.
func (s *server) greet() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(greeting{ownHello()}, nil)
}

// send writes one line of an answer.
func (s *server) send(a answer) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(s.named(a), a.body)
}

// beat sends a heartbeat, unless another line is being written, which serves as a heartbeat.
func (s *server) beat() {
	if a := s.named(answer{}); a.Node != "" && s.writing.TryLock() {
		defer s.writing.Unlock()
		_ = s.write(a, nil)
	}
}

// named fills in this node's name and state.
func (s *server) named(a answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Node, a.Busy = s.node, s.busy || s.wait.Busy() > 0
	return a
}

// write sends one line, with a body if there is one. A broken stream ends the agent.
func (s *server) write(line any, body []byte) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if body != nil {
		body = slices.Concat(bodyBehind, body)
	}
	whole := slices.Concat([]byte(Marker), text, body, []byte("\n"))
	if len(whole) > maxLine {
		return ErrOversize
	}
	if _, err := s.out.Write(whole); err != nil {
		s.end(err)
		return err
	}
	return nil
}

// drain waits for cancelled methods, for a limited time.
func (s *server) drain() {
	finished := make(chan struct{})
	go func() {
		s.working.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(drainGrace):
	}
}
