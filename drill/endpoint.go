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
	// greetTime is how long preflight waits for a server to speak first, as ssh and mail servers
	// do. Stores never speak first.
	greetTime = 150 * time.Millisecond
	// countTime is the time limit for a store of the oldest generation to count its keys. A libuv
	// store does not answer this request, so most stores cost this much time.
	countTime = 500 * time.Millisecond
	// newerTime is the time limit for answers of a newer store. While preflight waits, an old store
	// that exceeded countTime serves no other client.
	newerTime = 1500 * time.Millisecond
	// lateTime is the time limit for reading an answer that arrived after countTime.
	lateTime = 50 * time.Millisecond
	// leaveTime is the pause before preflight tries a port again that another preflight used.
	leaveTime = 100 * time.Millisecond
	// maxGreeting is how many bytes of a greeting are kept.
	maxGreeting = 200
)

// countKeys is a complete request for a store of the oldest generation. It is also the only request
// that does no harm to any store: newer stores close the connection or ignore it.
const countKeys byte = 6

// maxPlausible is the limit for a plausible number of keys. It is far more than any store has.
const maxPlausible = 1 << 32

// Identify finds out what listens at host:port, which may be a running job. It changes nothing
// there. It occupies a store no longer than two calls of the job's own clients would. That is
// important because servers before libuv look up the name of every caller in their only thread,
// which a dead name server slows down.
//
// A store of the oldest generation would read VALIDATE as a key of terabytes. So Identify first
// asks in that generation's protocol. Only if the server then stays silent or closes the connection
// does Identify send VALIDATE, with one more byte. These bytes are too short to be a length, even
// for an old store that was only stopped. Identify sends PING only to a server that answers
// VALIDATE.
//
// No job can use another preflight's store. So Identify waits for that preflight to leave, as long
// as there is time for one more try. It does not ask a store of the oldest generation for
// preflight's key, because that would be more than the one harmless request.
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
		leaves := met && seen.Outcome == facts.PathReset // the other preflight left during the request
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

// ask finds out what has accepted the connection, and closes the connection. It does the work of
// Identify.
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

// askOldest lets the server speak first, and then asks for the number of keys in the way of the
// oldest generation. It returns the answer. It returns an error only if the connection broke before
// the request, which no store does.
func askOldest(conn net.Conn) ([]byte, error) {
	text, err := readFor(conn, 1, greetTime)
	if len(text) > 0 || err != nil {
		return text, err
	}
	if _, err := conn.Write([]byte{countKeys}); err != nil {
		return nil, err
	}
	text, _ = readFor(conn, 8, countTime) // a newer store closes the connection
	return text, nil
}

// readFor reads until it has enough bytes or limit has passed. Reaching the limit is not an error.
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

// oldestCount returns the number of keys from the answer of a store of the oldest generation.
func oldestCount(answer []byte) (keys int64, ok bool) {
	if len(answer) != 8 {
		return 0, false
	}
	count := binary.NativeEndian.Uint64(answer)
	return int64(count), count < maxPlausible
}

// askNewer asks a store of 2.1 or newer. A store that does not support PING closes the connection.
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

// firstLine returns the first line of a server's output, escaped.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	quoted := strconv.QuoteToASCII(strings.TrimSpace(line))
	return quoted[1 : len(quoted)-1]
}
