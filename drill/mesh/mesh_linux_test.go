// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"preflight/drill/outcome"
	"preflight/facts"
)

// listens makes a node listen on a loopback address until the test ends.
func listens(t *testing.T, node, address string) Peer {
	t.Helper()
	listener, err := Open(Listen{Token: "token", Node: node, Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	there := listener.Listening()[0]
	if there.Error != "" || len(there.Ports) != portsEach {
		t.Fatalf("%s listens on %+v", node, there)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { listener.Serve(ctx); close(served) }()
	t.Cleanup(func() { cancel(); <-served })
	return Peer{Name: node, Address: address, Ports: there.Ports}
}

// TestMesh checks that every node reaches every other node and itself, on one port or on all ports.
func TestMesh(t *testing.T) {
	var peers []Peer
	want := map[string]float64{}
	for i := range 5 {
		node := fmt.Sprintf("w%d", i+1)
		peers = append(peers, listens(t, node, fmt.Sprintf("127.0.0.%d", i+2)))
		want[node] = 0
	}
	for _, all := range []bool{false, true} {
		for _, peer := range peers {
			mesh := Calls{Deadline: callsTime, Token: "token", Node: peer.Name, Peers: peers, AllPorts: all}.Run(t.Context())
			if len(mesh.Failed) > 0 || mesh.Error != "" {
				t.Errorf("%s failed to reach %+v %s", peer.Name, mesh.Failed, mesh.Error)
			}
			if diff := cmp.Diff(want, mesh.Reached, cmpopts.EquateApprox(0, 1)); diff != "" {
				t.Errorf("%s reached (-want +got):\n%s", peer.Name, diff)
			}
			for node, seconds := range mesh.Reached {
				if seconds <= 0 {
					t.Errorf("%s had an answer of %s within %v s", peer.Name, node, seconds)
				}
			}
			if mesh.MSS < 32<<10 || mesh.MSS > 65535 {
				t.Errorf("a segment of loopback has %d bytes", mesh.MSS)
			}
		}
	}
}

// TestMSSIsOfOthers checks that MSS leaves out a node's connections to itself, which say nothing
// about the network.
func TestMSSIsOfOthers(t *testing.T) {
	own := listens(t, "w1", "127.0.0.2")
	mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{own}}.Run(t.Context())
	if len(mesh.Reached) != 1 || mesh.MSS != 0 {
		t.Errorf("%+v", mesh)
	}
}

// TestEveryPortIsCalled checks that every port of every node is called if all callers have the same
// list.
func TestEveryPortIsCalled(t *testing.T) {
	for nodes := portsEach; nodes < 9; nodes++ {
		for peer := range nodes {
			var called []int
			for caller := range nodes {
				r := reach{peer: Peer{Ports: []int{0, 1, 2}}, firstPort: caller + peer}
				called = append(called, r.port(0))
			}
			slices.Sort(called)
			if diff := cmp.Diff([]int{0, 1, 2}, slices.Compact(called)); diff != "" {
				t.Errorf("peer %d of %d (-want +got):\n%s", peer, nodes, diff)
			}
		}
	}
}

// somebody answers calls on a loopback port with the function answer.
func somebody(t *testing.T, answer func(*net.TCPConn)) int {
	t.Helper()
	socket, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		for {
			conn, err := socket.AcceptTCP()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go answer(conn)
		}
	}()
	return socket.Addr().(*net.TCPAddr).Port
}

// says returns a function that answers a hello with these bytes, and then reads until the caller
// closes the connection.
func says(answers ...[]byte) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		io.ReadFull(conn, make([]byte, headLength))
		conn.Write(slices.Concat(answers...))
		io.Copy(io.Discard, conn)
	}
}

// closedPort returns a loopback port that refuses connections. The port is bound but does not
// listen, so the kernel gives it to no other process until the test ends.
func closedPort(t *testing.T) int {
	t.Helper()
	fd, err := openSocket(unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}

// TestOutcomes checks how all other programs that may answer on a port are reported.
func TestOutcomes(t *testing.T) {
	k := keyOf("token")
	answer := message{kind: meshAnswer, amount: 1000, name: "w2"}.encode(k)
	tests := []struct {
		name   string
		answer func(*net.TCPConn)
		want   facts.Path
	}{
		{"nothing", func(*net.TCPConn) {}, facts.Path{Outcome: facts.PathSilent, Error: "connected, then no answer"}},
		{"half a hello is read", func(c *net.TCPConn) { c.Read(make([]byte, 5)) }, facts.Path{Outcome: facts.PathSilent, Error: "connected, then no answer"}},
		{"half an answer", says(answer[:20]), facts.Path{Outcome: facts.PathSilent, Error: "connected, then no answer"}},
		{"a reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, facts.Path{Outcome: facts.PathReset, Error: "connection reset by peer"}},
		{"an end", func(c *net.TCPConn) { c.CloseWrite(); io.Copy(io.Discard, c) }, facts.Path{Outcome: facts.PathReset, Error: "the connection was closed before the call ended"}},
		{"an end after the answer", func(c *net.TCPConn) {
			io.ReadFull(c, make([]byte, headLength))
			c.Write(answer)
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}, facts.Path{Outcome: facts.PathReset, Error: "the connection was closed before the call ended"}},
		{"an ssh server", func(c *net.TCPConn) { c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n")) }, facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"an echo", func(c *net.TCPConn) { io.Copy(c, c) }, facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"another run", says(message{kind: meshAnswer, name: "w2"}.encode(keyOf("other"))), facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"another node", says(message{kind: meshAnswer, name: "w3"}.encode(k)), facts.Path{Outcome: facts.PathMisdirected, Answered: "w3", Error: "w3 answered"}},
		{"an answer that goes wrong", says(answer, []byte{meshAnswer}), facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"full packets vanish on the way there", says(answer), facts.Path{Outcome: facts.PathBlackhole, Stuck: "to", Error: "it answers, but full packets to it are lost"}},
		{"full packets vanish on the way back", says(answer, []byte{received}, make([]byte, 999)),
			facts.Path{Outcome: facts.PathBlackhole, Stuck: "from", Error: "it answers, but full packets from it are lost"}},
		{"a reset in the middle", func(c *net.TCPConn) {
			c.Write(answer)
			io.CopyN(io.Discard, c, int64(headLength)+1)
			c.SetLinger(0)
			c.Close()
		}, facts.Path{Outcome: facts.PathReset, Error: "connection reset by peer"}},
		{"all that is due", says(answer, []byte{received}, make([]byte, 1000)), facts.Path{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			port := somebody(t, tt.answer)
			peer := Peer{Name: "w2", Address: "127.0.0.1", Ports: []int{port}}
			mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{peer}}.Run(t.Context())
			var want []facts.Path
			if tt.want.Outcome != "" {
				tt.want.Peer, tt.want.To, tt.want.Port = "w2", "127.0.0.1", port
				want = append(want, tt.want)
			}
			ignore := cmpopts.IgnoreFields(facts.Path{}, "Seconds", "MSS")
			if diff := cmp.Diff(want, mesh.Failed, ignore); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reached := len(mesh.Reached) == 1; reached != (want == nil) {
				t.Errorf("reached: %t", reached)
			}
		})
	}
}

// heard reports whether a call sends everything at once, and not step by step.
func heard(t *testing.T, conn *net.TCPConn) (atOnce bool) {
	n, err := conn.Read(make([]byte, 64<<10))
	if err != nil {
		t.Errorf("a caller said nothing: %v", err)
	}
	return n > headLength+len("w1")
}

// TestSecondCall checks that a call without an answer is repeated step by step. The second call
// shows the reason, and must not make the first call pass.
func TestSecondCall(t *testing.T) {
	k := keyOf("token")
	all := slices.Concat(message{kind: meshAnswer, amount: 1000, name: "w2"}.encode(k), []byte{received}, make([]byte, 1000))
	again := make(chan struct{}) // closed when the second call reaches the server, which then answers the first call late
	tests := []struct {
		name   string
		answer func(conn *net.TCPConn, atOnce bool)
		want   facts.Path
		calls  int32
	}{
		{"answers the second alone", func(c *net.TCPConn, atOnce bool) {
			if !atOnce {
				c.Write(all)
			}
		}, facts.Path{Outcome: facts.PathSilent, Error: "connected, then no answer, although a second call got one"}, 2},
		{"resets the second", func(c *net.TCPConn, atOnce bool) {
			if !atOnce {
				c.SetLinger(0)
				c.Close()
			}
		}, facts.Path{Outcome: facts.PathReset, Error: "connection reset by peer"}, 2},
		{"is another node to the second", func(c *net.TCPConn, atOnce bool) {
			if !atOnce {
				c.Write(message{kind: meshAnswer, name: "w3"}.encode(k))
			}
		}, facts.Path{Outcome: facts.PathMisdirected, Answered: "w3", Error: "w3 answered"}, 2},
		{"answers the first, late", func(c *net.TCPConn, atOnce bool) {
			if !atOnce {
				close(again)
				return
			}
			<-again
			c.Write(all)
		}, facts.Path{}, 2},
		{"answers", func(c *net.TCPConn, atOnce bool) { c.Write(all) }, facts.Path{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			port := somebody(t, func(c *net.TCPConn) {
				calls.Add(1)
				tt.answer(c, heard(t, c))
				io.Copy(io.Discard, c)
			})
			peer := Peer{Name: "w2", Address: "127.0.0.1", Ports: []int{port}}
			mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{peer}}.Run(t.Context())
			var want []facts.Path
			if tt.want.Outcome != "" {
				tt.want.Peer, tt.want.To, tt.want.Port = "w2", "127.0.0.1", port
				want = append(want, tt.want)
			}
			if diff := cmp.Diff(want, mesh.Failed, cmpopts.IgnoreFields(facts.Path{}, "Seconds", "MSS")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reached := len(mesh.Reached) == 1; reached != (want == nil) {
				t.Errorf("reached: %t", reached)
			}
			if calls.Load() != tt.calls {
				t.Errorf("it was called %d times", calls.Load())
			}
		})
	}
}

// TestOtherPorts checks that the other ports and the ssh port are tried if a port fails. If all
// ports are called anyway, the first failure must be reported, whatever its position.
func TestOtherPorts(t *testing.T) {
	good := listens(t, "w2", "127.0.0.1").Ports
	shut := []int{closedPort(t), closedPort(t), closedPort(t)}
	ssh := somebody(t, func(*net.TCPConn) {})
	yes, no := true, false
	tests := []struct {
		name     string
		ports    []int
		control  int
		allPorts bool
		want     *facts.Path
	}{
		{"one shut", []int{shut[0], good[1], good[2]}, ssh, false, &facts.Path{Port: shut[0], Open: []int{good[1], good[2]}, Control: &yes}},
		{"two shut", []int{shut[0], good[1], shut[2]}, ssh, false, &facts.Path{Port: shut[0], Open: []int{good[1]}, Shut: []int{shut[2]}, Control: &yes}},
		{"all shut", shut, closedPort(t), false, &facts.Path{Port: shut[0], Shut: []int{shut[1], shut[2]}, Control: &no}},
		{"no ssh port known", shut, 0, false, &facts.Path{Port: shut[0], Shut: []int{shut[1], shut[2]}}},
		{"another shut, unseen", []int{good[0], shut[1], good[2]}, ssh, false, nil},
		{"another shut, all called", []int{good[0], shut[1], good[2]}, ssh, true, &facts.Path{Port: shut[1], Open: []int{good[0], good[2]}, Control: &yes}},
		{"all shut, all called", shut, ssh, true, &facts.Path{Port: shut[0], Shut: []int{shut[1], shut[2]}, Control: &yes}},
	}
	for _, tt := range tests {
		for _, knock := range []bool{false, true} {
			peer := Peer{Name: "w2", Address: "127.0.0.1", Ports: tt.ports, Control: tt.control, Knock: knock}
			mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{peer}, AllPorts: tt.allPorts}.Run(t.Context())
			var want []facts.Path
			if tt.want != nil {
				tt.want.Peer, tt.want.To, tt.want.Outcome, tt.want.Error = "w2", "127.0.0.1", facts.PathRefused, "connection refused"
				want = append(want, *tt.want)
			}
			if diff := cmp.Diff(want, mesh.Failed, cmpopts.IgnoreFields(facts.Path{}, "Seconds")); diff != "" {
				t.Errorf("%s, knock %t (-want +got):\n%s", tt.name, knock, diff)
			}
		}
	}
}

// TestKnock checks that a knock only connects: it sends nothing, and the listener that it leaves is
// ready for calls.
func TestKnock(t *testing.T) {
	var got atomic.Int64
	silent := somebody(t, func(conn *net.TCPConn) {
		n, _ := io.Copy(io.Discard, conn)
		got.Add(n)
	})
	peers := []Peer{
		listens(t, "w1", "127.0.0.2"), listens(t, "w2", "127.0.0.3"),
		{Name: "w3", Address: "127.0.0.1", Ports: []int{silent}, Knock: true},
	}
	for _, knock := range []bool{true, false} {
		peers[1].Knock = knock
		mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: peers}.Run(t.Context())
		if len(mesh.Reached) != 3 || mesh.Reached["w2"] <= 0 || mesh.Reached["w3"] <= 0 {
			t.Errorf("knock at w2 %t: %+v, want every node reached", knock, mesh)
		}
		if hasMSS := mesh.MSS != 0; hasMSS == knock {
			t.Errorf("knock at w2 %t: a segment has %d bytes, known only from calls to others", knock, mesh.MSS)
		}
	}
	if got.Load() != 0 {
		t.Errorf("knocks sent %d bytes", got.Load())
	}
}

// TestBroken checks that a call that cannot even be tried is reported as broken.
func TestBroken(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		peer    Peer
		outcome facts.PathOutcome
		want    string
	}{
		{"no port", t.Context(), Peer{Name: "w2", Address: "127.0.0.1"}, facts.PathBroken, "it has not reported that it listens"},
		{"no address", t.Context(), Peer{Name: "w2", Address: "w2", Ports: []int{1}}, facts.PathBroken, `the peer's address "w2" is not an IP address`},
		{"no interface", t.Context(), Peer{Name: "w2", Address: "fe80::1%none9", Ports: []int{1}}, facts.PathBroken, "interface not found: none9"},
		{"no time", ended, Peer{Name: "w2", Address: "127.0.0.1", Ports: []int{somebody(t, func(*net.TCPConn) {})}}, facts.PathUntried, outcome.ErrNoTime.Error()},
	}
	for _, tt := range tests {
		mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{tt.peer}}.Run(tt.ctx)
		if len(mesh.Failed) != 1 || mesh.Failed[0].Outcome != tt.outcome || mesh.Failed[0].Error != tt.want {
			t.Errorf("%s: %+v", tt.name, mesh)
		}
	}
}

// TestWaitingCalls checks that waiting calls do not keep others from starting, and that all calls
// end with the context.
func TestWaitingCalls(t *testing.T) {
	silent := somebody(t, func(*net.TCPConn) {})
	var peers []Peer
	for i := range 3 * callsAtOnce {
		peers = append(peers, Peer{Name: fmt.Sprintf("silent%d", i), Address: "127.0.0.1", Ports: []int{silent}})
	}
	peers = append(peers, listens(t, "w2", "127.0.0.2"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*callPatience)
	defer cancel()
	began := time.Now()
	mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: peers}.Run(ctx)
	if _, reached := mesh.Reached["w2"]; !reached || len(mesh.Failed) != 3*callsAtOnce {
		t.Errorf("reached %v, failed %d", mesh.Reached, len(mesh.Failed))
	}
	if took := time.Since(began); took >= connectTime {
		t.Errorf("it took %v", took)
	}
}

// TestWaitAfterTheTime checks a process that could not run until the time of its calls was over. It
// must still find the data that has arrived.
func TestWaitAfterTheTime(t *testing.T) {
	poll, err := newPoll()
	if err != nil {
		t.Fatal(err)
	}
	defer poll.close()
	fd, err := listenAt(netip.MustParseAddrPort("127.0.0.1:0"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := poll.watch(fd, unix.EPOLLIN); err != nil {
		t.Fatal(err)
	}
	past := time.Unix(1, 0)
	if news := poll.wait(t.Context(), past); len(news) != 0 {
		t.Errorf("news of nothing: %v", news)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if news := poll.wait(t.Context(), past); len(news) != 1 || int(news[0].Fd) != fd {
		t.Errorf("the call was missed: %v", news)
	}
}

// TestMeshOverIPv6 checks that IPv6 addresses are called like IPv4 addresses.
func TestMeshOverIPv6(t *testing.T) {
	if socket, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("NOT RUN: this machine has no IPv6: %v", err)
	} else {
		socket.Close()
	}
	peers := []Peer{listens(t, "w1", "::1")}
	mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: peers, AllPorts: true}.Run(t.Context())
	if len(mesh.Reached) != 1 {
		t.Errorf("%+v", mesh)
	}
	peers[0].Ports = []int{1}
	mesh = Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: peers}.Run(t.Context())
	if len(mesh.Failed) != 1 || mesh.Failed[0].Outcome != facts.PathRefused {
		t.Errorf("a port on which nobody listens: %+v", mesh)
	}
}
