package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"preflight/facts"
	"preflight/remote"
)

// member is a node whose agent is still there when all nodes have been probed.
type member struct {
	*facts.Node
	agent *remote.Agent

	mu sync.Mutex // over the node's sections and what is missing of it
}

// learn files what a drill told of a section, or why it told nothing. A node
// that is lost meanwhile is as lost as one that never answered: what it told
// before stays, and what failed at it is its fault.
func learn[Section any](m *member, into **Section, name facts.Section, seen Section, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		*into = &seen
		return
	}
	m.Missing[name] = lostReason(err)
	if failure := (*remote.Error)(nil); errors.As(err, &failure) && failure.Cause != remote.Interrupted {
		failed(m.SSH, failure)
		m.Reached = false
	}
}

// errNoAnswer is of a node that is there and says nothing.
var errNoAnswer = errors.New("no answer")

// isLost is whether nothing is known, because the node is gone or silent, which
// is another matter than what it says went wrong.
func isLost(err error) bool {
	failure := (*remote.Error)(nil)
	return errors.As(err, &failure) || errors.Is(err, errNoAnswer)
}

// miss says why a section was not looked at.
func (m *member) miss(section facts.Section, format string, values ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Missing[section] = fmt.Sprintf(format, values...)
}

// crew is the members in hostfile order.
type crew []*member

// muster gathers the nodes that kept an agent.
func muster(nodes []facts.Node, agents []*remote.Agent) crew {
	var c crew
	for i, agent := range agents {
		if agent != nil {
			c = append(c, &member{Node: &nodes[i], agent: agent})
		}
	}
	return c
}

// each has work done for every member at once.
func (c crew) each(work func(int, *member)) {
	var all sync.WaitGroup
	for i, m := range c {
		all.Go(func() { work(i, m) })
	}
	all.Wait()
}

// named is the member of a hostfile name, nil when it is lost.
func (c crew) named(name string) *member {
	for _, m := range c {
		if m.Name == name {
			return m
		}
	}
	return nil
}

func (c crew) nodes() []*facts.Node {
	nodes := make([]*facts.Node, len(c))
	for i, m := range c {
		nodes[i] = m.Node
	}
	return nodes
}

// dismiss ends the agents, and with them whatever they still do.
func (c crew) dismiss() {
	c.each(func(_ int, m *member) { m.agent.Close() })
}

// stand asks for something that lasts until ctx ends. It returns as soon as the
// agent has said how it stands, or that it does not; at the latest after limit.
func stand[Answer any](ctx context.Context, agent *remote.Agent, method string, request any, limit time.Duration) (Answer, error) {
	type outcome struct {
		answer Answer
		err    error
	}
	first := make(chan outcome, 1) // room for one, so that the call can end when nobody waits
	go func() {
		said := false
		err := agent.Call(ctx, method, request, func(_ string, body json.RawMessage) {
			if !said {
				said = true
				var o outcome
				o.answer, o.err = decode[Answer](body)
				first <- o
			}
		})
		if !said {
			first <- outcome{err: err}
		}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case o := <-first:
		return o.answer, o.err
	case <-late.C:
		return outcome{}.answer, fmt.Errorf("%w to %s within %s", errNoAnswer, method, limit)
	}
}
