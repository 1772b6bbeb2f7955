// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/drill/c10d"
	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
)

// lastWords is the time that a waiting join keeps free at the end to ask how many nodes were
// counted.
const lastWords = 250 * time.Millisecond

// letGoTime is how long a killed process may take to release everything that it holds.
const letGoTime = 200 * time.Millisecond

// ownKey is a key in every store that a preflight serves, and in no other store.
const ownKey = "preflight"

// These functions return the keys that a rendezvous needs, for a token.
//
// The key from storeKey exists from the start and shows whose store it is. A store without the key
// may belong to a running job, which an ADD from a new client would mislead. By asking for the key,
// a caller also shows the store that the caller belongs to this run.
//
// The key from countKey holds torch's count of the clients that have joined
// (torch/csrc/distributed/c10d/TCPStore.cpp, initKey_). It is below the token.
func storeKey(token string) string {
	host, _, _ := strings.Cut(token, "/")
	return "preflight/" + host
}
func countKey(token string) string        { return "preflight/" + token + "/init/" }
func completeKey(token string) string     { return "preflight/" + token + "/complete" }
func joinedKey(token, node string) string { return "preflight/" + token + "/joined/" + node }

// Host describes the node that serves the store.
type Host struct {
	Token      string           `json:"token"`
	Node       string           `json:"node"`
	Port       int              `json:"port"` // 0 for any free port
	Generation facts.Generation `json:"generation"`
	// Patience is how long to wait for another preflight that uses the port.
	Patience time.Duration `json:"patience"`
}

// Serving is the result of starting to serve.
type Serving struct {
	Port int `json:"port"` // 0 if there is no store; Taken then says why
	// Waited is how long another preflight used the port. Taken describes the preflight that still
	// uses it.
	Waited time.Duration  `json:"waited,omitempty"`
	Taken  *hostsys.Taken `json:"taken,omitempty"`
	// Ranks lists the addresses from which ranks of a real launch have called, at most MaxRanks.
	Ranks []string `json:"ranks,omitempty"`
}

// MaxRanks is the maximum number of addresses in Serving.Ranks.
const MaxRanks = 16

// Serve serves a store until ctx ends, and leaves nothing behind. It binds the port as torch does,
// whatever address is advertised.
//
// It calls ready when the store accepts calls, or when another preflight did not leave the port in
// time. It calls ready again when ranks of a real launch call. If the port cannot be bound, the
// error contains the errno. In that case another program uses the port, and Serve does not wait for
// that program.
func (h Host) Serve(ctx context.Context, ready func(Serving)) error {
	turn, waited, err := h.takeTurn(ctx)
	if taken := (*hostsys.Taken)(nil); errors.As(err, &taken) {
		ready(Serving{Waited: waited, Taken: taken})
		return nil
	}
	defer turn.End()
	listener, err := h.listen(ctx, waited)
	if err != nil {
		return err
	}
	server := c10d.NewServer(h.Generation)
	for _, key := range []string{ownKey, storeKey(h.Token)} {
		server.Set(key, []byte(h.Node))
	}
	serving := Serving{Port: listener.Addr().(*net.TCPAddr).Port, Waited: waited}
	ready(serving)
	var mu sync.Mutex
	server.AdmitOnly(storeKey(h.Token), func(from netip.Addr) {
		mu.Lock()
		defer mu.Unlock()
		if len(serving.Ranks) < MaxRanks && !slices.Contains(serving.Ranks, from.String()) {
			serving.Ranks = append(serving.Ranks, from.String())
			ready(serving)
		}
	})
	return server.Serve(ctx, listener)
}

// takeTurn waits until no other preflight uses the port.
func (h Host) takeTurn(ctx context.Context) (turn *hostsys.Turn, waited time.Duration, err error) {
	if h.Port == 0 {
		return &hostsys.Turn{}, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	return hostsys.TakeTurn(ctx, hostsys.TurnAtPort(h.Port))
}

// listen opens the port. If another preflight was killed during the wait, it may have released its
// turn just before its port.
func (h Host) listen(ctx context.Context, waited time.Duration) (net.Listener, error) {
	end := time.Now().Add(letGoTime)
	for {
		listener, err := c10d.Listen(ctx, h.Port)
		if !errors.Is(err, syscall.EADDRINUSE) || waited == 0 || time.Now().After(end) {
			return listener, err
		}
		time.Sleep(letGoTime / 20)
	}
}

// Join is one node's part in a rendezvous. It must run only while its host serves, because it must
// not join any other process on the port.
type Join struct {
	// Token is the host's token. If several rendezvous share a store, each adds a slash and a
	// separate name to the token.
	Token      string           `json:"token"`
	Node       string           `json:"node"`
	Host       string           `json:"host"` // name or address of the host, as the ranks will get it
	Port       int              `json:"port"`
	World      int              `json:"world"` // the number of nodes that must join
	Generation facts.Generation `json:"generation"`
	Deadline   time.Duration    `json:"deadline"` // time limit from the lookup until all nodes have joined
	// Own lists the addresses of the nodes that serve. The name may lead to another address, where
	// the server may be a running job's store. In that case Run first asks the server as carefully
	// as Identify does.
	Own []string `json:"own"`
}

// Run performs every step of a rank once, in torch's order: resolve, connect, VALIDATE and PING,
// join the count, wait for all nodes. The result names the hop that failed. A store of another run
// fails at the hop validate.
func (j Join) Run(ctx context.Context) facts.Rendezvous {
	w := hostsys.BeginWait()
	ctx, cancel := context.WithTimeout(ctx, j.Deadline)
	defer cancel()
	seen := facts.Rendezvous{
		Endpoint:   net.JoinHostPort(j.Host, strconv.Itoa(j.Port)),
		Generation: j.Generation,
	}
	failed := func(hop facts.Hop, became facts.PathOutcome, problem string) facts.Rendezvous {
		isLate := became == facts.PathSilent || hop == facts.HopWait && w.Took() >= j.Deadline-lastWords
		if excuse := w.Excuse(j.Node); isLate && excuse != "" {
			became, problem = facts.PathUntried, excuse
		}
		seen.Failed, seen.Outcome, seen.Error = hop, became, problem
		return seen
	}

	addresses, err := resolve(ctx, j.Host)
	if err != nil {
		return failed(facts.HopResolve, "", unresolved(ctx, err))
	}
	seen.Addresses = texts(addresses)
	conn, err := callFirst(ctx, addresses, j.Port)
	if err != nil {
		return failed(facts.HopConnect, outcome.Of(err), outcome.Words(err))
	}
	seen.Address, seen.Interface, _ = outcome.Ends(conn)
	to := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	if !j.owns(seen.Address) {
		if outcome, problem := j.inquire(ctx, conn); problem != "" {
			return failed(facts.HopValidate, outcome, problem)
		}
		if conn, err = callFirst(ctx, []netip.Addr{to}, j.Port); err != nil {
			return failed(facts.HopConnect, outcome.Of(err), outcome.Words(err))
		}
	}
	client := c10d.NewClient(conn, j.Generation)
	defer client.Close()
	if err := j.recognise(ctx, client); err != nil {
		return failed(facts.HopValidate, storeOutcome(err), outcome.Words(err))
	}
	if err := j.enter(ctx, client); err != nil {
		return failed(facts.HopJoin, storeOutcome(err), outcome.Words(err))
	}
	seen.Joined = w.Took().Seconds()
	if problem := j.await(ctx, client, to); problem != "" {
		return failed(facts.HopWait, "", problem)
	}
	seen.Complete = w.Took().Seconds()
	return seen
}

var errForeign = errors.New("a c10d store answered, but not the one that preflight serves for this run")

func (j Join) owns(address string) bool {
	return slices.ContainsFunc(j.Own, func(own string) bool {
		parsed, err := netip.ParseAddr(own)
		return err == nil && parsed.Unmap().String() == address
	})
}

// inquire asks the server that has accepted the connection, and closes the connection. The problem
// is "" if a store of the right generation is there, whichever run it belongs to. VALIDATE and PING
// then do the store no harm.
func (j Join) inquire(ctx context.Context, conn net.Conn) (outcome facts.PathOutcome, problem string) {
	var found facts.Endpoint
	ask(ctx, conn, &found)
	switch {
	case found.Failed != "":
		return found.Outcome, found.Error
	case found.Store != j.Generation:
		return facts.PathStranger, fmt.Sprintf("another program's store: torch %s, %d keys", found.Store, found.Keys)
	}
	return "", ""
}

// recognise makes sure that the store belongs to this run, which also identifies this node to the
// store. It then sends the other requests with which a rank begins.
func (j Join) recognise(ctx context.Context, client *c10d.Client) error {
	client.Validate()
	ours, err := client.Check(ctx, storeKey(j.Token))
	if err == nil && !ours {
		err = errForeign
	}
	if err == nil && j.Generation == facts.GenerationPings {
		err = client.Ping(ctx, rand.Uint32())
	}
	return err
}

// enter makes the store count this node. The last node sets the key for which the other nodes wait.
func (j Join) enter(ctx context.Context, client *c10d.Client) error {
	if err := client.Set(ctx, joinedKey(j.Token, j.Node), []byte(j.Node)); err != nil {
		return err
	}
	counted, err := client.Add(ctx, countKey(j.Token), 1)
	if err == nil && counted == int64(j.World) {
		err = client.Set(ctx, completeKey(j.Token), nil)
	}
	return err
}

// await waits for all nodes. It returns the problem, or "" if all nodes came.
func (j Join) await(ctx context.Context, client *c10d.Client, to netip.Addr) string {
	deadline, _ := ctx.Deadline()
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-lastWords))
	defer cancel()
	err := client.Wait(waiting, completeKey(j.Token))
	switch {
	case err == nil:
		return ""
	case !errors.Is(err, context.DeadlineExceeded):
		return outcome.Words(err)
	}
	if counted, err := j.counted(ctx, to); err == nil {
		return fmt.Sprintf("%d of %d nodes joined in time", counted, j.World)
	}
	return fmt.Sprintf("not all %d nodes joined in time", j.World)
}

// counted asks how many nodes have joined. It uses a new connection, because the waiting connection
// ended with its wait.
func (j Join) counted(ctx context.Context, to netip.Addr) (int64, error) {
	conn, err := callFirst(ctx, []netip.Addr{to}, j.Port)
	if err != nil {
		return 0, err
	}
	client := c10d.NewClient(conn, j.Generation)
	defer client.Close()
	if err := j.recognise(ctx, client); err != nil {
		return 0, err
	}
	return client.Add(ctx, countKey(j.Token), 0)
}

func storeOutcome(err error) facts.PathOutcome {
	switch {
	case errors.Is(err, c10d.ErrNotAStore), errors.Is(err, errForeign):
		return facts.PathStranger
	case errors.Is(err, context.DeadlineExceeded):
		return facts.PathSilent
	}
	return outcome.Of(err)
}
