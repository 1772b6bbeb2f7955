// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"preflight/internal/text"
	"preflight/remote"
)

// Name is this carrier's name in traces.
const Name = "meet"

// maxCalls is how many nodes may wait for authentication at the same time.
const maxCalls = 256

// Carrier is the launching machine's end. It listens until all nodes have connected, and keeps
// their connections until there is a verdict.
type Carrier struct {
	listener net.Listener
	token    string
	places   chan struct{}
	calls    sync.WaitGroup
	called   map[string]string // maps the name that is dialled to the name with which the node connects
	seats    map[string]*seat  // every expected node, by the name with which it connects

	mu        sync.Mutex
	strangers int // number of callers that were not expected nodes
}

// seat holds the state of one expected node.
type seat struct {
	came chan struct{} // closed when the node has connected

	mu    sync.Mutex
	line  *line
	wrong string // an address that used the node's name without knowing the token
	twice string // the address of a second machine that used the node's name
	over  bool   // no more connections are accepted
}

// Listen starts to accept connections from nodes. called maps the name that will be dialled to the
// name with which the node connects.
func Listen(listener net.Listener, token string, called map[string]string) *Carrier {
	c := &Carrier{listener: listener, token: token, called: called, places: make(chan struct{}, maxCalls), seats: map[string]*seat{}}
	for _, name := range called {
		c.seats[name] = &seat{came: make(chan struct{})}
	}
	c.calls.Go(c.accept)
	return c
}

// Came returns a channel that is closed when the node has connected.
func (c *Carrier) Came(name string) <-chan struct{} { return c.seats[c.called[name]].came }

// Address returns the address on which the Carrier listens.
func (c *Carrier) Address() net.Addr { return c.listener.Addr() }

func (c *Carrier) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files, which is temporary: waiting nodes connect again
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case c.places <- struct{}{}:
			c.calls.Go(func() {
				defer func() { <-c.places }()
				c.authenticate(conn)
			})
		default: // no run has this many nodes connecting at the same moment
			conn.Close()
		}
	}
}

// authenticate authenticates the other end of a connection. It assigns the connection to the node's
// seat or closes it.
func (c *Carrier) authenticate(conn net.Conn) {
	l := newLine(conn)
	_ = conn.SetDeadline(time.Now().Add(callTime))
	if !c.seated(l) {
		conn.Close()
		c.mu.Lock()
		c.strangers++
		c.mu.Unlock()
	}
}

func (c *Carrier) seated(l *line) bool {
	var h hello
	if l.receive(&h) != nil {
		return false
	}
	if h.Wire != wire {
		_ = l.send(challenge{Wire: wire, Refused: fmt.Sprintf("this preflight uses protocol %d, and the node uses %d: run the same release on both", wire, h.Wire)})
		return false
	}
	from := l.RemoteAddr().String()
	ours := challenge{Wire: wire, Nonce: nonce()}
	var theirs proof
	if l.send(ours) != nil || l.receive(&theirs) != nil {
		return false
	}
	at := c.seats[h.Node] // the map does not change
	if !theirs.equals(proofOf(c.token, "node", h, ours)) {
		if at != nil {
			at.note(&at.wrong, from)
		}
		_ = l.send(proof{Refused: "the tokens differ: use the same token on the node and on the launching machine"})
		return false
	}
	if at == nil {
		_ = l.send(proof{Refused: fmt.Sprintf("%s is not a host of this run: --node must be a name from its list of hosts", h.Node)})
		return false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.over || at.line != nil {
		if !at.over {
			at.twice = from
		}
		_ = l.send(proof{Refused: "another node has used this name, or the run is over: give every node its own --node"})
		return false
	}
	if l.send(proof{Proof: proofOf(c.token, "judge", h, ours)}) != nil || l.SetDeadline(time.Time{}) != nil {
		return false
	}
	at.line = l
	close(at.came)
	return true
}

// note stores the first text that is reported about a node.
func (s *seat) note(what *string, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *what == "" {
		*what = text
	}
}

// Files counts one connection per node and those that wait for authentication.
func (c *Carrier) Files(names []string) int { return len(names) + maxCalls }

// Dial waits until the node connects.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace, began := &remote.Trace{Carrier: Name}, time.Now()
	fail := func(stage remote.Stage, cause remote.Cause, err error) (remote.Connection, *remote.Trace, error) {
		return nil, trace, &remote.Error{Host: name, Stage: stage, Cause: cause, Err: err}
	}
	at := c.seats[c.called[name]]
	if at == nil {
		return fail(remote.StageResolve, remote.Unexpected, errors.New("no node of this name is expected"))
	}
	select {
	case <-at.came:
	case <-ctx.Done():
		at.mu.Lock()
		wrong := at.wrong
		at.mu.Unlock()
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return fail(remote.StageConnect, remote.Interrupted, context.Cause(ctx))
		case wrong != "":
			return fail(remote.StageLogin, remote.WrongToken, fmt.Errorf("the call came from %s", text.Escape(wrong)))
		}
		return fail(remote.StageConnect, remote.NotCome, fmt.Errorf("no call at %s within %s%s", c.Address(), text.Duration(time.Since(began).Seconds()), c.others()))
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.twice != "" {
		return fail(remote.StageLogin, remote.NameTwice, fmt.Errorf("from %s and from %s", at.line.RemoteAddr(), text.Escape(at.twice)))
	}
	trace.Connected = time.Since(began)
	if from, err := netip.ParseAddrPort(at.line.RemoteAddr().String()); err == nil {
		trace.Address = from.Addr().Unmap().String()
	}
	return &visit{line: at.line, ended: make(chan struct{})}, trace, nil
}

// others returns a text about unexpected machines that connected. It is added to the failure of a
// node that has not connected.
func (c *Carrier) others() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strangers == 0 {
		return ""
	}
	return fmt.Sprintf("; %d calls came that were not from a node", c.strangers)
}

// Conclude sends the verdict to all nodes that have connected, and closes the connections.
func (c *Carrier) Conclude(v Verdict) {
	text, _ := json.Marshal(v) // a string and a bool
	c.release(slices.Concat([]byte("\n"+verdictMark), text, []byte("\n")))
}

// release sends last over all connections and closes them.
func (c *Carrier) release(last []byte) {
	var all sync.WaitGroup
	for _, at := range c.seats {
		at.mu.Lock()
		l := at.line
		at.line, at.over = nil, true
		at.mu.Unlock()
		if l != nil {
			all.Go(func() {
				_ = l.SetWriteDeadline(time.Now().Add(callTime))
				_, _ = l.Write(last) // a node that is gone cannot be told anything
				l.Close()
			})
		}
	}
	all.Wait()
}

// Close closes all connections.
func (c *Carrier) Close() error {
	err := c.listener.Close()
	c.release(nil)
	c.calls.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// visit is the part of a connection during which the agent answers.
type visit struct {
	line  *line
	mu    sync.Mutex
	over  bool // we have said that there are no more requests
	clean bool // the agent ended after that
	once  sync.Once
	ended chan struct{}
}

// Start starts the conversation with the agent, which runs already. If the first line cannot be
// sent, the failure shows up where answers are read.
func (v *visit) Start(string, io.Writer) (*remote.Process, *remote.Error) {
	_, _ = io.WriteString(v.line, look)
	return &remote.Process{Running: true, Stdin: requests{v}, Stdout: agentOutput{v}, Wait: v.exit}, nil
}

// exit returns how the agent ended. An agent that ends by itself reports no status.
func (v *visit) exit() remote.Exit {
	<-v.ended
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clean {
		return remote.Exit{}
	}
	return remote.Exit{Status: -1, Missing: true}
}

// requests is the stream of requests to the agent. Closing it ends the requests and keeps the
// connection open.
type requests struct{ visit *visit }

func (r requests) Write(p []byte) (int, error) { return r.visit.line.Write(p) }

func (r requests) Close() error { return r.visit.finish() }

// finish tells the agent that there are no more requests.
func (v *visit) finish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return nil
	}
	v.over = true
	_, err := io.WriteString(v.line, over)
	return err
}

// agentOutput is the agent's output. The visit ends when the output ends.
type agentOutput struct{ visit *visit }

func (h agentOutput) Read(p []byte) (int, error) {
	n, err := h.visit.line.in.Read(p)
	if err != nil {
		h.visit.end(errors.Is(err, io.EOF))
		err = io.EOF
	}
	return n, err
}

// end ends the visit, either because the agent ended by itself or because it is given up.
func (v *visit) end(byItself bool) {
	v.once.Do(func() {
		v.mu.Lock()
		v.clean = v.over && byItself
		v.mu.Unlock()
		close(v.ended)
	})
}

// Alive returns false, because the connection gives no sign of life of a silent node.
func (v *visit) Alive() bool { return false }

// Wait returns when no more input will come.
func (v *visit) Wait() error {
	<-v.ended
	return errors.New("the node closed the connection")
}

// Broken returns nil, because only the connection itself can fail.
func (v *visit) Broken() *remote.Error { return nil }

func (v *visit) LookOut(context.Context) remote.Lookout { return lookout{} }

type lookout struct{}

func (lookout) Tell(*remote.Error) {}
func (lookout) Dismiss()           {}

// closeTime is the time limit for sending the last message to a node that accepts no more input.
const closeTime = 100 * time.Millisecond

// Close makes the agent end and stops reading from it. The connection stays open for the verdict.
func (v *visit) Close() error {
	v.end(false)
	_ = v.line.SetReadDeadline(time.Unix(1, 0)) // releases a pending read
	_ = v.line.SetWriteDeadline(time.Now().Add(closeTime))
	return v.finish()
}
