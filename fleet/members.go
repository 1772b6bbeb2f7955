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
	position int // the node's index among the members

	mu    sync.Mutex // guards the node's sections, the reasons for missing ones, and ranks
	ranks []string   // addresses from which ranks of a real launch called this member's store
}

// learn stores the section that a drill produced, or the reason why it produced none. A node that
// is lost during a drill counts as lost. Its earlier reports stay, and the failure is recorded.
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

// lose marks the node as lost if err says that the node is lost.
func (m *member) lose(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure := (*remote.Error)(nil); errors.As(err, &failure) && failure.Cause != remote.Interrupted {
		failed(m.SSH, failure)
		m.Reached = false
	}
}

// isLost reports whether err means that the node is gone or silent, so that nothing is known. It
// returns false for an error that the node itself reported.
func isLost(err error) bool {
	failure := (*remote.Error)(nil)
	return errors.As(err, &failure) || errors.Is(err, remote.ErrNoAnswer)
}

// busy returns why missing answers of some members prove nothing: a member, or the launching
// machine during the wait, was busy. It returns "" if all machines had enough time.
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

// named returns the member with the given hostfile name, or nil if that member is lost.
func (all members) named(name string) *member {
	if i := all.index(name); i >= 0 {
		return all[i]
	}
	return nil
}

// index returns the position of the member with the given hostfile name, or -1 if it is lost.
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

// close ends the agents and everything that they still do. It does not wait for lost agents.
func (all members) close() {
	all.each(func(m *member) {
		if m.Reached {
			m.agent.Close()
		} else {
			go m.agent.Close()
		}
	})
}

// within returns a context for one request to an agent. The context lasts a little longer than the
// agent's limit, so that the agent's report about a hang still arrives.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit+answerTime)
}
