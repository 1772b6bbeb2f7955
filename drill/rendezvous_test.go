// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/drill/c10d"
	"preflight/drill/outcome"
	"preflight/facts"
)

var generations = []facts.Generation{facts.GenerationLegacy, facts.GenerationValidates, facts.GenerationPings}

// serveStore makes a host serve on a free port until the test ends.
func serveStore(t *testing.T, token string, g facts.Generation) (port int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	bound, ended := make(chan int, 1), make(chan error, 1)
	host := Host{Token: token, Node: "w1", Generation: g}
	go func() { ended <- host.Serve(ctx, func(s Serving) { bound <- s.Port }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case port := <-bound:
		return port
	case err := <-ended:
		t.Fatal(err)
	}
	panic("unreachable")
}

// serveAnything serves another protocol until the test ends. The function answer defines the
// protocol.
func serveAnything(t *testing.T, answer func(net.Conn)) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { listener.Close() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// hush reads everything and sends nothing.
func hush(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// hangUp closes the connection while bytes are unread, which resets the connection.
func hangUp(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

func join(token, node string, port, world int, g facts.Generation) Join {
	return Join{Token: token, Node: node, Host: "127.0.0.1", Port: port, World: world, Generation: g, Deadline: 10 * time.Second, Own: []string{"127.0.0.1"}}
}

// joinAll makes nodes join at the same time.
func joinAll(t *testing.T, joins ...Join) []facts.Rendezvous {
	seen := make([]facts.Rendezvous, len(joins))
	var all sync.WaitGroup
	for i, j := range joins {
		all.Go(func() { seen[i] = j.Run(t.Context()) })
	}
	all.Wait()
	return seen
}

func TestEverybodyMeets(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			port := serveStore(t, "token", g)
			// Two rendezvous use the same store, one after the other.
			for _, token := range []string{"token/ranks", "token/peers"} {
				seen := joinAll(t, join(token, "w1", port, 3, g), join(token, "w2", port, 3, g), join(token, "w3", port, 3, g))
				for _, got := range seen {
					want := facts.Rendezvous{
						Endpoint: fmt.Sprintf("127.0.0.1:%d", port), Generation: g,
						Addresses: []string{"127.0.0.1"}, Address: "127.0.0.1", Interface: "lo",
					}
					if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(facts.Rendezvous{}, "Joined", "Complete")); diff != "" {
						t.Errorf("(-want +got)\n%s", diff)
					}
					if got.Joined <= 0 || got.Complete < got.Joined {
						t.Errorf("joined after %g s, complete after %g s", got.Joined, got.Complete)
					}
				}
			}
		})
	}
}

// TestSomebodyIsMissing checks that each waiting node reports how many nodes have come if one node
// never comes.
func TestSomebodyIsMissing(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			port := serveStore(t, "token", g)
			first, second := join("token", "w1", port, 3, g), join("token", "w2", port, 3, g)
			first.Deadline, second.Deadline = time.Second, time.Second
			want := "2 of 3 nodes joined in time"
			for _, got := range joinAll(t, first, second) {
				if got.Failed != facts.HopWait || got.Joined == 0 || got.Complete != 0 || got.Error != want {
					t.Errorf("%+v, want to fail at the wait: %s", got, want)
				}
			}
		})
	}
}

func TestTheHopThatFails(t *testing.T) {
	foreign := c10d.NewServer(facts.GenerationPings)
	foreignPort := serveForeign(t, foreign)
	tests := []struct {
		name    string
		host    string
		port    int
		g       facts.Generation
		hop     facts.Hop
		outcome facts.PathOutcome
		problem string
	}{
		{"a name nobody knows", "w9.invalid", 1, facts.GenerationPings, facts.HopResolve, "", "no such host"},
		{"nobody listens", "127.0.0.1", deadPort, facts.GenerationPings, facts.HopConnect, facts.PathRefused, "connection refused"},
		{"silence", "127.0.0.1", serveAnything(t, hush), facts.GenerationPings, facts.HopValidate, facts.PathSilent, "no answer in time"},
		{"hangs up", "127.0.0.1", serveAnything(t, hangUp), facts.GenerationPings, facts.HopValidate, facts.PathReset, ""},
		{"an ssh server", "127.0.0.1", serveAnything(t, sshServer), facts.GenerationValidates, facts.HopValidate, facts.PathStranger, "not one of a c10d store"},
		{"another's store", "127.0.0.1", foreignPort, facts.GenerationPings, facts.HopValidate, facts.PathStranger, "not the one that preflight serves"},
		{"PING at 2.1", "127.0.0.1", serveStore(t, "token", facts.GenerationValidates), facts.GenerationPings, facts.HopValidate, facts.PathReset, ""},
		{"VALIDATE at 2.0", "127.0.0.1", serveStore(t, "token", facts.GenerationLegacy), facts.GenerationPings, facts.HopValidate, facts.PathReset, ""},
		{"2.0 at 2.5", "127.0.0.1", serveStore(t, "token", facts.GenerationPings), facts.GenerationLegacy, facts.HopValidate, facts.PathSilent, "no answer in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := join("token", "w2", tt.port, 2, tt.g)
			j.Host, j.Deadline = tt.host, time.Second
			got := j.Run(t.Context())
			if got.Failed != tt.hop || got.Outcome != tt.outcome || !strings.Contains(got.Error, tt.problem) || got.Error == "" {
				t.Errorf("%s, %s, %q; want %s, %s, %q", got.Failed, got.Outcome, got.Error, tt.hop, tt.outcome, tt.problem)
			}
		})
	}
	conn, err := net.Dial("tcp", at(foreignPort))
	if err != nil {
		t.Fatal(err)
	}
	client := c10d.NewClient(conn, facts.GenerationPings)
	defer client.Close()
	if keys, err := client.ValidateAndCount(t.Context()); keys != 0 || err != nil {
		t.Errorf("a store that is not ours has %d keys after that, %v", keys, err)
	}
}

// TestJoinElsewhere covers a name that leads to another host with a running job. A node must first
// ask what the store is. If the store belongs to another run, the node must send nothing more.
func TestJoinElsewhere(t *testing.T) {
	old := &oldStore{}
	tests := []struct {
		name    string
		port    int
		outcome facts.PathOutcome
		problem string
	}{
		{"a job of torch 2.0", serveForeign(t, c10d.NewServer(facts.GenerationLegacy)), facts.PathStranger, "another program's store: torch 2.0 or older, 0 keys"},
		{"one that is watched", serveAnything(t, old.serve), facts.PathStranger, "another program's store: torch 2.0 or older, 5 keys"},
		{"a job of torch 2.4", serveForeign(t, c10d.NewServer(facts.GenerationValidates)), facts.PathStranger, "another program's store: torch 2.1 to 2.4, 0 keys"},
		{"a job of our own torch", serveForeign(t, c10d.NewServer(facts.GenerationPings)), facts.PathStranger, errForeign.Error()},
		{"an ssh server", serveAnything(t, sshServer), facts.PathStranger, "another server answered"},
		{"silence", serveAnything(t, hush), facts.PathSilent, "no answer in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := join("token", "w2", tt.port, 2, facts.GenerationPings)
			j.Own = []string{"10.0.0.1"}
			got := j.Run(t.Context())
			if got.Failed != facts.HopValidate || got.Outcome != tt.outcome || got.Error != tt.problem || got.Joined != 0 {
				t.Errorf("%+v, want %s: %s", got, tt.outcome, tt.problem)
			}
		})
	}
	if longest := old.longest.Load(); longest != 1 {
		t.Errorf("an old store was sent %d bytes, want its one request", longest)
	}
}

// oldStore is a store of the oldest generation with five keys. It records the largest number of
// bytes that it received on one connection.
type oldStore struct{ longest atomic.Int64 }

func (s *oldStore) serve(conn net.Conn) {
	data, buffer := int64(0), make([]byte, 100)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if data += int64(n); data == 1 && buffer[0] == countKeys {
			_, _ = conn.Write([]byte{5, 0, 0, 0, 0, 0, 0, 0})
		}
		s.longest.Store(max(s.longest.Load(), data))
	}
}

// TestJoinOursElsewhere checks that a node joins this run's own store at any address where it
// answers.
func TestJoinOursElsewhere(t *testing.T) {
	for _, g := range generations {
		j := join("token", "w2", serveStore(t, "token", g), 1, g)
		j.Own = nil
		if got := j.Run(t.Context()); got.Failed != "" || got.Complete == 0 || got.Address != "127.0.0.1" {
			t.Errorf("%s: %+v", g, got)
		}
	}
}

func TestOwns(t *testing.T) {
	tests := []struct {
		own     []string
		address string
		want    bool
	}{
		{[]string{"10.0.0.2", "10.0.0.1"}, "10.0.0.1", true},
		{[]string{"::ffff:10.0.0.1"}, "10.0.0.1", true},
		{[]string{"fd00:0::1"}, "fd00::1", true},
		{[]string{"10.0.0.2", "w1", ""}, "10.0.0.1", false},
		{nil, "10.0.0.1", false},
	}
	for _, tt := range tests {
		if got := (Join{Own: tt.own}).owns(tt.address); got != tt.want {
			t.Errorf("%q, %s: %t, want %t", tt.own, tt.address, got, tt.want)
		}
	}
}

// serveForeign serves a store that belongs to no host of this run.
func serveForeign(t *testing.T, server *c10d.Server) (port int) {
	listener, err := c10d.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// deadPort is tcpmux's port. Nothing listens on it, and the kernel gives it to no process.
const deadPort = 1

func sshServer(conn net.Conn) {
	_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2p1\r\n")
	hush(conn)
}

// TestHostOnAHeldPort checks that preflight does not wait for the port if the process there is not
// a preflight.
func TestHostOnAHeldPort(t *testing.T) {
	port := serveAnything(t, hush)
	host := Host{Token: "token", Node: "w1", Port: port, Generation: facts.GenerationPings, Patience: time.Minute}
	began := time.Now()
	err := host.Serve(t.Context(), func(Serving) { t.Error("it says that it is ready") })
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("serving on a held port: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestTravellingOrders checks that a Join and a Host survive being sent to the nodes as JSON.
func TestTravellingOrders(t *testing.T) {
	want := join("token", "w2", 29500, 2, facts.GenerationPings)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Join
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", text, diff)
	}
}

// TestCallFirst checks that the first address that accepts is called. If no address accepts, the
// error must be that of the first address with a route.
func TestCallFirst(t *testing.T) {
	port := serveAnything(t, hush)
	unroutable := netip.MustParseAddr("fe80::1") // a link-local address without a zone
	here, elsewhere := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.9")
	tests := []struct {
		name      string
		addresses []netip.Addr
		to        string
		outcome   facts.PathOutcome
	}{
		{"only one", []netip.Addr{here}, "127.0.0.1", ""},
		{"the second", []netip.Addr{elsewhere, here}, "127.0.0.1", ""},
		{"none", []netip.Addr{elsewhere}, "", facts.PathRefused},
		{"no address", nil, "", facts.PathBroken},
		{"the unroutable one is not to blame", []netip.Addr{unroutable, elsewhere}, "", facts.PathRefused},
	}
	for _, tt := range tests {
		conn, err := callFirst(t.Context(), tt.addresses, port)
		to := ""
		if err == nil {
			to, _, _ = outcome.Ends(conn)
			conn.Close()
		}
		if to != tt.to || outcome.Of(err) != tt.outcome {
			t.Errorf("%s: %q and %v, want %q and %q", tt.name, to, err, tt.to, tt.outcome)
		}
	}
}

func TestResolve(t *testing.T) {
	tests := map[string]string{"10.0.0.7": "10.0.0.7", "fd00::7": "fd00::7"}
	for host, want := range tests {
		got, err := resolve(t.Context(), host)
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
	if got, err := resolve(t.Context(), "localhost"); err != nil || !got[len(got)-1].IsLoopback() {
		t.Errorf("localhost: %v, %v", got, err)
	}
}
