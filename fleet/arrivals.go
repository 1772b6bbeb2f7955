// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	"preflight/agent"
	"preflight/facts"
	"preflight/remote"
)

// lateTime is for how long nobody may have come for those who are missing to be late, where the
// others did not take longer than that themselves.
const lateTime = time.Second

// arrival is a node that was looked at, or was lost on the way.
type arrival struct {
	i     int // its place in the hostfile
	node  facts.Node
	agent *remote.Agent // nil of a lost one
	at    time.Time
	took  time.Duration
}

// arrivals are the nodes of a run, as they come.
type arrivals struct {
	each chan arrival  // with room for all: who comes need not be taken in at once
	over bool          // all have come
	most time.Duration // to wait for the next one
}

// lookAtAll has all nodes looked at, and returns at once.
func (job Job) lookAtAll(ctx context.Context) *arrivals {
	nodes := job.empty().Nodes
	coming := &arrivals{each: make(chan arrival, len(nodes)), most: job.Timeout / 4}
	asking := job.asking(ctx)
	job.alike = &alike{}
	job.emit(Event{Phase: Reaching, Step: Began, Nodes: len(nodes)})
	looking := job.opening(Looking, len(nodes))
	atOnce, short := job.Remote.Fit(job.Prediction.HostNames(), true, AtOnce)
	go func() {
		eachNode(len(nodes), atOnce, func(i int) {
			began, a := time.Now(), arrival{i: i, node: nodes[i]}
			if short != nil {
				a.node.SSH, a.node.Missing = sshFacts(&remote.Trace{}, short), everySection("not reached")
			} else {
				a.agent = job.lookAt(ctx, &a.node, func() agent.Probing { return asking(i) }, looking)
			}
			a.at = time.Now()
			a.took = a.at.Sub(began)
			coming.each <- a
		})
		job.emit(Event{Phase: Looking, Step: Ended})
		close(coming.each)
	}()
	return coming
}

// early are those who come before the others are late: before nobody has come for as long as
// those who have took themselves, on the average. Where all come one after the other it is
// everybody. Fewer than two have nothing to try with each other, and wait.
func (coming *arrivals) early() (came []arrival) {
	reached, took := 0, time.Duration(0)
	for {
		var late <-chan time.Time
		if reached > 1 {
			late = time.After(min(max(lateTime, took/time.Duration(reached)), coming.most))
		}
		select {
		case a, more := <-coming.each:
			if !more {
				coming.over = true
				return came
			}
			came = append(came, a)
			if a.agent != nil {
				reached++
				took += a.took
			}
		case <-late:
			return came
		}
	}
}

// rest is everybody else.
func (coming *arrivals) rest() (came []arrival) {
	for a := range coming.each {
		came = append(came, a)
	}
	coming.over = true
	return came
}
