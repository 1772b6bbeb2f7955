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

// lastWords is the time that a waiting join reserves to ask how many nodes were counted.
const lastWords = 250 * time.Millisecond

// letGoTime is how long a killed process takes to release everything it holds.
const letGoTime = 200 * time.Millisecond

// ownKey is in every store that a preflight serves, and in no other.
const ownKey = "preflight"

// The keys that a rendezvous needs, for a token. The first exists from the start and shows whose
// store it is: a store without it may belong to a running job, which a newcomer's ADD would
// mislead. By asking for it, a caller also shows the store that it belongs to this run. The second
// is torch's count of those who joined (torch/csrc/distributed/c10d/TCPStore.cpp, initKey_), below
// the token.
func storeKey(token string) string {
	host, _, _ := strings.Cut(token, "/")
	return "preflight/" + host
}
func countKey(token string) string        { return "preflight/" + token + "/init/" }
func completeKey(token string) string     { return "preflight/" + token + "/complete" }
func joinedKey(token, node string) string { return "preflight/" + token + "/joined/" + node }

// Host is the node that serves the store.
type Host struct {
	Token      string           `json:"token"`
	Node       string           `json:"node"`
	Port       int              `json:"port"` // 0 for any free one
	Generation facts.Generation `json:"generation"`
	// Patience is how long to wait for another preflight that has the port.
	Patience time.Duration `json:"patience"`
}

// Serving is the result of starting to serve.
type Serving struct {
	Port int `json:"port"` // 0 if Taken says why there is none
	// Waited is how long another preflight had the port, and Taken which one still has it.
	Waited time.Duration  `json:"waited,omitempty"`
	Taken  *hostsys.Taken `json:"taken,omitempty"`
	// Ranks are addresses from which ranks of a real launch have called, at most MaxRanks of them.
	Ranks []string `json:"ranks,omitempty"`
}

// MaxRanks is the maximum number of such addresses that are reported.
const MaxRanks = 16

// Serve serves a store until ctx ends, and leaves nothing behind. It binds as torch does, whatever
// address is advertised. It calls ready when the store accepts calls, or when another preflight did
// not leave the port in time, and again when ranks of a real launch call. The error contains the
// errno of a port that cannot be bound: another program has it, and Serve does not wait for that
// one.
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

// takeTurn waits until no other preflight has the port.
func (h Host) takeTurn(ctx context.Context) (turn *hostsys.Turn, waited time.Duration, err error) {
	if h.Port == 0 {
		return &hostsys.Turn{}, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	return hostsys.TakeTurn(ctx, hostsys.TurnAtPort(h.Port))
}

// listen opens the port. A preflight that was waited for and was killed may have released its turn
// just before its port.
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

// Join is one node's part in a rendezvous. It must run only while its host serves: any other
// process on the port must not be joined.
type Join struct {
	// Token is the host's. If several rendezvous share a store, each has a name of its own after a
	// slash.
	Token      string           `json:"token"`
	Node       string           `json:"node"`
	Host       string           `json:"host"` // a name or an address, as the ranks will get it
	Port       int              `json:"port"`
	World      int              `json:"world"` // how many nodes must join
	Generation facts.Generation `json:"generation"`
	Deadline   time.Duration    `json:"deadline"` // for everything: from the lookup until all have joined
	// Own are the addresses of the nodes that serve. If the name leads to another address, Run
	// first asks the server there as carefully as Identify does: it may be a running job's store.
	Own []string `json:"own"`
}

// Run performs every step of a rank, in torch's order, once: resolve, connect, VALIDATE and PING,
// be counted, see all nodes. The result names the hop that failed; a store of another run fails at
// validate.
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

// inquire asks the server that has accepted the connection, and closes it. The problem is "" if a
// store of the generation is there, whoever it belongs to: VALIDATE and PING then do it no harm.
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
// store. It then sends what else a rank begins with.
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

// enter lets this node be counted. The last node sets the key for which the others wait.
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

// await waits for all nodes. It returns the problem, "" for none.
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

// counted asks how many have joined, over a new connection: the one that waited ended with its
// wait.
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
