// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"

	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
)

// streams is how many connections share the sending. A single connection may be limited to one
// queue of the interface, or to one member of a bond.
const streams = 4

// onThreads lets every stream of this process have a thread. Agents start with a single one.
func onThreads() { runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), min(streams, runtime.NumCPU()))) }

// SendOverhead is the maximum time that a Send takes in addition to its span.
const SendOverhead = connectTime + exchangeTime

// Send sends to a peer's listener as fast as possible for the duration of span. It returns the rate
// at which data arrived, as counted by the peer. If any connection failed, the result has Error and
// no Rate.
func Send(ctx context.Context, token, node string, to Peer, span time.Duration) facts.Throughput {
	ctx, cancel := context.WithTimeout(ctx, span+SendOverhead)
	defer cancel()
	result := facts.Throughput{Peer: to.Name}
	if len(to.Ports) == 0 {
		result.Error = to.Name + " has not reported that it listens"
		return result
	}
	turn, taken := hostsys.TryTurn(hostsys.TurnAtThroughput)
	defer turn.End()
	onThreads()
	began := time.Now()
	hello := message{kind: throughputHello, amount: uint64(span), name: node}
	sent := make([]stream, streams)
	var all sync.WaitGroup
	for i := range sent {
		all.Go(func() { sent[i] = send(ctx, keyOf(token), hello, to, to.Ports[i%len(to.Ports)]) })
	}
	all.Wait()
	result.Seconds = min(time.Since(began), span).Seconds()
	result.Shared = taken != nil || turn.WasAskedFor()
	for _, s := range sent {
		if s.err != nil {
			result.Rate, result.Error = 0, s.words(ctx)
			return result
		}
		result.Interface = s.from
		result.Rate += s.rate
	}
	return result
}

type stream struct {
	from string  // the interface that was used
	rate float64 // rate in bit/s at which data arrived
	err  error
}

func (s stream) words(ctx context.Context) string {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "interrupted"
	case outcome.Of(s.err) == facts.PathReset: // the sender may see the end of the connection first, as a reset
		return errHungUp.Error()
	}
	return outcome.Words(s.err)
}

func send(ctx context.Context, k key, hello message, to Peer, port int) (s stream) {
	dialer := net.Dialer{Timeout: connectTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.Address, strconv.Itoa(port)))
	if err != nil {
		return stream{err: err}
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	_, s.from, _ = outcome.Ends(conn)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer conn.Close() // closing the connection ends the sending
	sending.Go(func() {
		// The next read reports any error of sending.
		_, err := conn.Write(hello.encode(k))
		for err == nil {
			_, err = conn.Write(payload[:])
		}
	})
	answer, err := readAnswer(conn, k)
	if err == nil && answer.name != to.Name {
		err = fmt.Errorf("%s answered", answer.name)
	}
	s.rate, s.err = float64(answer.amount), err
	return s
}

func readAnswer(conn net.Conn, k key) (message, error) {
	b := make([]byte, 0, headLength+maxName)
	for {
		n, err := conn.Read(b[len(b):cap(b)])
		if err != nil {
			return message{}, err
		}
		b = b[:len(b)+n]
		if answer, _, err := decode(b, k, throughputAnswer); !errors.Is(err, errShort) {
			return answer, err
		}
	}
}
