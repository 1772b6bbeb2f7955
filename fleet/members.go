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
	agent *remote.Agent
	turn  int // its place among the members

	mu    sync.Mutex // over the node's sections, what is missing of it, and
	ranks []string   // where those of a real launch called its store from
}

// learn files what a drill showed of a section, or why it showed nothing. A node
// that is lost meanwhile is as lost as one that never answered: what it reported
// before stays, and what failed at it is its fault.
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

// lose says of the node that it is lost, where err is of that.
func (m *member) lose(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure := (*remote.Error)(nil); errors.As(err, &failure) && failure.Cause != remote.Interrupted {
		failed(m.SSH, failure)
		m.Reached = false
	}
}

// isLost is whether nothing is known, because the node is gone or silent, which
// is another matter than what it says went wrong.
func isLost(err error) bool {
	failure := (*remote.Error)(nil)
	return errors.As(err, &failure) || errors.Is(err, remote.ErrNoAnswer)
}

// busy returns why it says nothing about members that they did not answer in time: one of them, or the launching
// machine during the wait, was busy. It returns "" if all had the time.
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

// members are in hostfile order.
type members []*member

func (all members) each(work func(*member)) {
	var done sync.WaitGroup
	for _, m := range all {
		done.Go(func() { work(m) })
	}
	done.Wait()
}

// named is the member of a hostfile name, nil when it is lost.
func (all members) named(name string) *member {
	if i := all.index(name); i >= 0 {
		return all[i]
	}
	return nil
}

// index is its place, -1 when it is lost.
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

// only are some of them.
func (all members) only(take func(*member) bool) (some members) {
	for _, m := range all {
		if take(m) {
			some = append(some, m)
		}
	}
	return some
}

// close ends the agents, and with them whatever they still do. Those that were lost are not
// waited for.
func (all members) close() {
	all.each(func(m *member) {
		if m.Reached {
			m.agent.Close()
		} else {
			go m.agent.Close()
		}
	})
}

// within bounds one request to an agent: a little more than the agent has, so
// that what it has to say of a hang still arrives.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit+answerTime)
}
