// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"preflight/drill/c10d"
	"preflight/drill/outcome"
	"preflight/facts"
)

const (
	// greetTime is how long whoever listens gets to speak first, as servers of
	// ssh and mail do. Stores never do.
	greetTime = 150 * time.Millisecond
	// countTime is how long a store of the oldest generation gets to count its
	// keys. One of libuv's says nothing, so that most stores cost this time.
	countTime = 500 * time.Millisecond
	// newerTime is how long a newer one gets for its answers. An old one that was
	// too slow for countTime answers no other client for as long.
	newerTime = 1500 * time.Millisecond
	// lateTime is for picking up an answer that came too late for countTime.
	lateTime = 50 * time.Millisecond
	// leaveTime is the pause before a port is looked at again that another preflight had.
	leaveTime = 100 * time.Millisecond
	// maxGreeting bounds what is kept of a greeting.
	maxGreeting = 200
)

// countKeys is a whole request for a store of the oldest generation, and the
// only one that a store of any generation can be sent without harm: the others
// hang up or take no notice.
const countKeys byte = 6

// maxPlausible is far more keys than any store has.
const maxPlausible = 1 << 32

// Identify finds out what listens at host:port, where a running job may be. It
// changes nothing there, and keeps a store from its work for no longer than two
// calls of its own clients do: a server before libuv's looks the name of every
// caller up, in its only thread, which a dead name server makes slow.
//
// A store of the oldest generation would take VALIDATE for a key of terabytes,
// so that it is asked first, in its own protocol. Only what is silent then or
// hangs up is sent VALIDATE, with one more byte: too few to be a length even for
// an old store that was merely stopped. And only what answers that is sent PING.
//
// The store of another preflight is nobody's to meet at: as long as there is time for one
// more look, it is waited for to leave. One of the oldest generation is not asked for its
// key, which would be more than that one request.
func Identify(ctx context.Context, endpoint string, deadline time.Duration) facts.Endpoint {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	waited, met := 0.0, false
	for {
		look := time.Now()
		seen := &facts.Endpoint{Endpoint: endpoint, Addresses: []string{}, Waited: waited}
		identify(ctx, seen)
		seen.Seconds = time.Since(began).Seconds()
		leaves := met && seen.Outcome == facts.PathReset // while it was asked
		if took := time.Since(look); !seen.Preflight && !leaves || deadline-time.Since(began) < leaveTime+2*took {
			return *seen
		}
		met = seen.Preflight
		time.Sleep(leaveTime)
		waited = time.Since(began).Seconds()
	}
}

func identify(ctx context.Context, seen *facts.Endpoint) {
	fail := func(hop facts.Hop, outcome facts.PathOutcome, problem string) {
		seen.Failed, seen.Outcome, seen.Error = hop, outcome, problem
	}
	host, portText, err := net.SplitHostPort(seen.Endpoint)
	if err != nil {
		fail(facts.HopResolve, "", err.Error())
		return
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		fail(facts.HopResolve, "", portText+" is not a port")
		return
	}
	addresses, err := resolve(ctx, host)
	if err != nil {
		fail(facts.HopResolve, "", unresolved(ctx, err))
		return
	}
	seen.Addresses = texts(addresses)
	conn, err := callFirst(ctx, addresses, int(port))
	if err != nil {
		fail(facts.HopConnect, outcome.Of(err), outcome.Words(err))
		return
	}
	seen.Address, seen.Interface, seen.Source = outcome.Ends(conn)
	ask(ctx, conn, seen)
}

// ask finds out who took the call, and ends it: what Identify says from then on.
func ask(ctx context.Context, conn net.Conn, seen *facts.Endpoint) {
	fail := func(outcome facts.PathOutcome, problem string) {
		seen.Failed, seen.Outcome, seen.Error = facts.HopValidate, outcome, problem
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	answer, err := askOldest(conn)
	keys, old := oldestCount(answer)
	switch {
	case old:
		seen.Store, seen.Keys = facts.GenerationLegacy, keys
	case len(answer) > 0:
		seen.Greeting = firstLine(answer)
		fail(facts.PathStranger, "another server answered")
	case err != nil:
		fail(storeOutcome(err), outcome.Words(err))
	default:
		if err = askNewer(ctx, conn.RemoteAddr().String(), seen); err == nil {
			return
		}
		answer, _ = readFor(conn, 8, lateTime)
		if keys, old = oldestCount(answer); old {
			seen.Store, seen.Keys = facts.GenerationLegacy, keys
			return
		}
		fail(storeOutcome(err), outcome.Words(err))
	}
}

// askOldest lets whoever listens speak first, and then asks for the number of
// keys as the oldest generation did. It returns the answer, and an error
// only where the connection broke before anything was asked: no store does that.
func askOldest(conn net.Conn) ([]byte, error) {
	text, err := readFor(conn, 1, greetTime)
	if len(text) > 0 || err != nil {
		return text, err
	}
	if _, err := conn.Write([]byte{countKeys}); err != nil {
		return nil, err
	}
	text, _ = readFor(conn, 8, countTime) // a newer store hangs up
	return text, nil
}

// readFor reads until there are enough bytes or the time is up, which is no error.
func readFor(conn net.Conn, enough int, limit time.Duration) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	text := make([]byte, maxGreeting)
	n, err := io.ReadAtLeast(conn, text, enough)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return text[:n], err
}

// oldestCount is the number of keys in the answer of a store of the oldest
// generation.
func oldestCount(answer []byte) (keys int64, ok bool) {
	if len(answer) != 8 {
		return 0, false
	}
	count := binary.NativeEndian.Uint64(answer)
	return int64(count), count < maxPlausible
}

// askNewer asks a store of 2.1 or newer. One that does not know PING hangs up.
func askNewer(ctx context.Context, address string, seen *facts.Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, newerTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	client := c10d.NewClient(conn, facts.GenerationPings)
	defer client.Close()
	keys, err := client.ValidateAndCount(ctx)
	if err == nil && (keys < 0 || keys >= maxPlausible) {
		err = c10d.ErrNotAStore
	}
	if err != nil {
		return err
	}
	ours, err := client.Check(ctx, ownKey)
	if err != nil {
		return err
	}
	generation := facts.GenerationPings
	if err := client.Ping(ctx, rand.Uint32()); storeOutcome(err) == facts.PathReset {
		generation = facts.GenerationValidates
	} else if err != nil {
		return err
	}
	seen.Store, seen.Keys, seen.Preflight = generation, keys, ours
	return nil
}

// firstLine is what a server sent, escaped, up to the end of its first line.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	quoted := strconv.QuoteToASCII(strings.TrimSpace(line))
	return quoted[1 : len(quoted)-1]
}
