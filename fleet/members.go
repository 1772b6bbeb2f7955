// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/remote"
)

// member is a node whose agent takes part in the drills.
type member struct {
	*facts.Node
	agent    *remote.Agent
	position int // its position among the members

	mu    sync.Mutex // guards the node's sections, their missing reasons, and ranks
	ranks []string   // addresses from which ranks of a real launch called its store
}

// learn stores a section that a drill showed, or why it showed nothing. A node that is lost during
// a drill counts as lost: its earlier reports stay, and it gets the failure.
func learn[Section any](m *member, into **Section, name facts.Section, seen Section, err error) {
	m.lose(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		*into = &seen
	} else {
		m.Missing[name] = lostReason(err)
	}
}

// lose marks the node as lost if err says so.
func (m *member) lose(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure := (*remote.Error)(nil); errors.As(err, &failure) && failure.Cause != remote.Interrupted {
		failed(m.SSH, failure)
		m.Reached = false
	}
}

// isLost reports whether err means that nothing is known because the node is gone or silent, as
// opposed to an error that it reported itself.
func isLost(err error) bool {
	failure := (*remote.Error)(nil)
	return errors.As(err, &failure) || errors.Is(err, remote.ErrNoAnswer)
}

// busy returns why missing answers of some members prove nothing: one of them, or the launching
// machine during the wait, was busy. It returns "" if all had enough time.
func busy(w hostsys.Wait, some ...*member) string {
	for _, m := range some {
		if m.agent.Busy() {
			return m.Name + " is busy: its agent gets too little CPU time"
		}
	}
	return w.Excuse(launching)
}

func (m *member) miss(section facts.Section, format string, values ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Missing[section] = fmt.Sprintf(format, values...)
}

// members is a list of members in hostfile order.
type members []*member

func (all members) each(work func(*member)) {
	var done sync.WaitGroup
	for _, m := range all {
		done.Go(func() { work(m) })
	}
	done.Wait()
}

// named returns the member with a hostfile name, nil if it is lost.
func (all members) named(name string) *member {
	if i := all.index(name); i >= 0 {
		return all[i]
	}
	return nil
}

// index returns its position, -1 if it is lost.
func (all members) index(name string) int {
	return slices.IndexFunc(all, func(m *member) bool { return m.Name == name })
}

func (all members) nodes() []*facts.Node {
	nodes := make([]*facts.Node, len(all))
	for i, m := range all {
		nodes[i] = m.Node
	}
	return nodes
}

// only returns the members for which take returns true.
func (all members) only(take func(*member) bool) (some members) {
	for _, m := range all {
		if take(m) {
			some = append(some, m)
		}
	}
	return some
}

// close ends the agents and everything that they still do. It does not wait for agents that were
// lost.
func (all members) close() {
	all.each(func(m *member) {
		if m.Reached {
			m.agent.Close()
		} else {
			go m.agent.Close()
		}
	})
}

// within limits one request to an agent. It allows a little more time than the agent has, so that
// the agent's report about a hang still arrives.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit+answerTime)
}
