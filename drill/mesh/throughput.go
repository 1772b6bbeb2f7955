// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
)

// streams is how many connections share the sending: a single one may be limited to one queue of
// the interface, or one member of a bond.
const streams = 4

// SendOverhead is how much longer than its span a Send takes at most.
const SendOverhead = connectTime + exchangeTime

// Send sends to a peer's listener as fast as possible for this time. It returns how much arrived,
// as counted by the peer. The result has Error and no Rate if any of the connections failed.
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
	rate float64 // bit/s that arrived
	err  error
}

func (s stream) words(ctx context.Context) string {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "interrupted"
	case outcome.Of(s.err) == facts.PathReset: // a reset, if the sender noticed the end first
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
	defer conn.Close() // ends the sending
	sending.Go(func() {
		// Errors while sending show up when reading.
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
