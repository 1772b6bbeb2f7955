package drill

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// listens has a node listen on an address of loopback until the test ends.
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

// Every node reaches every other and itself, on one port or on all.
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
			mesh := Calls{Token: "token", Node: peer.Name, Peers: peers, AllPorts: all}.Run(t.Context())
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

// The own connections say nothing about the network.
func TestMSSIsOfOthers(t *testing.T) {
	own := listens(t, "w1", "127.0.0.2")
	mesh := Calls{Token: "token", Node: "w1", Peers: []Peer{own}}.Run(t.Context())
	if len(mesh.Reached) != 1 || mesh.MSS != 0 {
		t.Errorf("%+v", mesh)
	}
}

// Where all callers have the same list, every port of every node is called.
func TestEveryPortIsCalled(t *testing.T) {
	for nodes := portsEach; nodes < 9; nodes++ {
		for peer := range nodes {
			var called []int
			for caller := range nodes {
				r := reach{peer: Peer{Ports: []int{0, 1, 2}}, turn: caller + peer}
				called = append(called, r.port(0))
			}
			slices.Sort(called)
			if diff := cmp.Diff([]int{0, 1, 2}, slices.Compact(called)); diff != "" {
				t.Errorf("peer %d of %d (-want +got):\n%s", peer, nodes, diff)
			}
		}
	}
}

// somebody answers calls in his own way on a port of loopback.
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

// says is somebody who answers a hello with these bytes, and then hears the
// caller out.
func says(answers ...[]byte) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		io.ReadFull(conn, make([]byte, headLength))
		conn.Write(slices.Concat(answers...))
		io.Copy(io.Discard, conn)
	}
}

// closedPort is a port of loopback that refuses calls, and that nobody else is
// lent until the test ends: it is bound, and nobody listens.
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

// What else can answer on a port, and what is said of it.
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
		{"an end", func(c *net.TCPConn) { c.CloseWrite(); io.Copy(io.Discard, c) }, facts.Path{Outcome: facts.PathReset, Error: "closed before the call was over"}},
		{"an end after the answer", func(c *net.TCPConn) {
			io.ReadFull(c, make([]byte, headLength))
			c.Write(answer)
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}, facts.Path{Outcome: facts.PathReset, Error: "closed before the call was over"}},
		{"an ssh server", func(c *net.TCPConn) { c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n")) }, facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"an echo", func(c *net.TCPConn) { io.Copy(c, c) }, facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"another run", says(message{kind: meshAnswer, name: "w2"}.encode(keyOf("other"))), facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"another node", says(message{kind: meshAnswer, name: "w3"}.encode(k)), facts.Path{Outcome: facts.PathMisdirected, Answered: "w3", Error: "w3 answered"}},
		{"an answer that goes wrong", says(answer, []byte{meshAnswer}), facts.Path{Outcome: facts.PathStranger, Error: errStranger.Error()}},
		{"full packets vanish on the way there", says(answer), facts.Path{Outcome: facts.PathBlackhole, Stuck: "to", Error: "it answers, but full packets to it vanish"}},
		{"full packets vanish on the way back", says(answer, []byte{received}, make([]byte, 999)),
			facts.Path{Outcome: facts.PathBlackhole, Stuck: "from", Error: "it answers, but full packets from it vanish"}},
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
			mesh := Calls{Token: "token", Node: "w1", Peers: []Peer{peer}}.Run(t.Context())
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

// A port that fails has the others tried, and the ssh port; when all are called
// anyway, the first that fails is told, wherever it stands.
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
		peer := Peer{Name: "w2", Address: "127.0.0.1", Ports: tt.ports, Control: tt.control}
		mesh := Calls{Token: "token", Node: "w1", Peers: []Peer{peer}, AllPorts: tt.allPorts}.Run(t.Context())
		var want []facts.Path
		if tt.want != nil {
			tt.want.Peer, tt.want.To, tt.want.Outcome, tt.want.Error = "w2", "127.0.0.1", facts.PathRefused, "connection refused"
			want = append(want, *tt.want)
		}
		if diff := cmp.Diff(want, mesh.Failed, cmpopts.IgnoreFields(facts.Path{}, "Seconds")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What cannot even be tried is broken, and said.
func TestBroken(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		peer Peer
		want string
	}{
		{"no port", t.Context(), Peer{Name: "w2", Address: "127.0.0.1"}, "it is not known to listen"},
		{"no address", t.Context(), Peer{Name: "w2", Address: "w2", Ports: []int{1}}, `it is called at "w2", which is no IP address`},
		{"no interface", t.Context(), Peer{Name: "w2", Address: "fe80::1%none9", Ports: []int{1}}, "this machine has no interface none9"},
		{"no time", ended, Peer{Name: "w2", Address: "192.0.2.1", Ports: []int{1}}, errNoTime.Error()},
	}
	for _, tt := range tests {
		mesh := Calls{Token: "token", Node: "w1", Peers: []Peer{tt.peer}}.Run(tt.ctx)
		if len(mesh.Failed) != 1 || mesh.Failed[0].Outcome != facts.PathBroken || mesh.Failed[0].Error != tt.want {
			t.Errorf("%s: %+v", tt.name, mesh)
		}
	}
}

// Nobody who only waits keeps the others from being called, and a context that
// ends has every call end.
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
	mesh := Calls{Token: "token", Node: "w1", Peers: peers}.Run(ctx)
	if _, reached := mesh.Reached["w2"]; !reached || len(mesh.Failed) != 3*callsAtOnce {
		t.Errorf("reached %v, failed %d", mesh.Reached, len(mesh.Failed))
	}
	if took := time.Since(began); took >= connectTime {
		t.Errorf("it took %v", took)
	}
}

// Strangers, however many they are and whatever they say, neither keep a peer
// from being answered nor leave anything behind.
func TestStrangers(t *testing.T) {
	files := openFiles(t)
	listener, err := Open(Listen{Token: "token", Node: "w2", Addresses: []string{"127.0.0.2"}})
	if err != nil {
		t.Fatal(err)
	}
	ports := listener.Listening()[0].Ports
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { listener.Serve(ctx); close(served) }()

	// A peer that came before them all, and is slow with its payload.
	slow, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	slow.Write(message{kind: meshHello, amount: 10}.encode(keyOf("token")))
	if _, err := io.ReadFull(slow, make([]byte, headLength+len("w2"))); err != nil {
		t.Fatal(err)
	}
	var strangers []net.Conn
	for i := range 3 * maxStrangers {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", ports[i%portsEach]))
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, conn)
		switch i % 3 { // one in three says nothing
		case 1:
			conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		case 2:
			conn.Write(message{kind: meshHello}.encode(keyOf("token"))[:9])
		}
	}
	peer := Peer{Name: "w2", Address: "127.0.0.2", Ports: ports}
	mesh := Calls{Token: "token", Node: "w1", Peers: []Peer{peer}, AllPorts: true}.Run(t.Context())
	if len(mesh.Reached) != 1 {
		t.Errorf("%+v", mesh.Failed)
	}
	// The eldest was sent away, having been told nothing; the youngest who said
	// nothing is still waited for.
	strangers[0].SetReadDeadline(time.Now().Add(time.Second))
	if n, err := strangers[0].Read(make([]byte, 1)); n > 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("the eldest read %d bytes, %v", n, err)
	}
	youngest := strangers[len(strangers)-3]
	youngest.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := youngest.Read(make([]byte, 1)); n > 0 || !os.IsTimeout(err) {
		t.Errorf("the youngest read %d bytes, %v", n, err)
	}
	slow.Write(make([]byte, 10))
	if n, err := slow.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the slow peer was sent away: %v", err)
	}
	cancel()
	<-served
	slow.Close()
	for _, conn := range strangers {
		conn.Close()
	}
	if left := openFiles(t); left > files {
		t.Errorf("%d files were open before, %d are now", files, left)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A stranger who stays silent is waited for longer than any peer waits for an
// answer, and no longer than that.
func TestSilentStranger(t *testing.T) {
	t.Parallel()
	peer := listens(t, "w2", "127.0.0.3")
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.3:%d", peer.Ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	conn.SetReadDeadline(began.Add(2 * callsTime))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if took := time.Since(began); took < exchangeTime+time.Second {
		t.Errorf("it was sent away after %v", took)
	}
}

// Each third of the range has a port, and what cannot be listened on is said.
func TestOpen(t *testing.T) {
	tests := []struct {
		name   string
		listen Listen
		want   []Listening // of the ports, only how many
		err    string
	}{
		{"two addresses", Listen{Token: "t", Node: "w1", Addresses: []string{"127.0.0.2", "127.0.0.3"}},
			[]Listening{{Address: "127.0.0.2", Ports: make([]int, 3)}, {Address: "127.0.0.3", Ports: make([]int, 3)}}, ""},
		{"nothing to listen on", Listen{Token: "t", Node: "w1"}, nil, ""},
		{"another's address", Listen{Token: "t", Node: "w1", Addresses: []string{"192.0.2.1", "127.0.0.2"}},
			[]Listening{
				{Address: "192.0.2.1", Error: "cannot listen on 192.0.2.1: bind: cannot assign requested address"},
				{Address: "127.0.0.2", Ports: make([]int, 3)},
			}, ""},
		{"a name", Listen{Token: "t", Node: "w1", Addresses: []string{"w1"}},
			[]Listening{{Address: "w1", Error: "cannot listen on w1: it is no IP address"}}, ""},
		{"a small range", Listen{Token: "t", Node: "w1", Addresses: []string{"127.0.0.2"}, Low: 40000, High: 40001},
			[]Listening{{Address: "127.0.0.2", Error: "cannot listen on 127.0.0.2: the ephemeral ports 40000 to 40001 are too few"}}, ""},
		{"no token", Listen{Node: "w1"}, nil, "listening needs a token, without which every stranger is a peer"},
		{"no node", Listen{Token: "t"}, nil, `listening needs a node name of 1 to 255 bytes, not ""`},
	}
	for _, tt := range tests {
		listener, err := Open(tt.listen)
		if err != nil || tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		listener.Serve(ended)
		alike := cmp.Comparer(func(a, b []int) bool { return len(a) == len(b) })
		if diff := cmp.Diff(tt.want, listener.Listening(), alike); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, there := range listener.Listening() {
			for i, port := range there.Ports {
				low, high := defaultLow+i*28232/3, defaultLow+(i+1)*28232/3
				if port < low || port >= high {
					t.Errorf("%s: port %d is not in part %d", tt.name, port, i)
				}
			}
		}
	}
}

// A range of which some ports are taken has the free ones found.
func TestOpenFindsFreePorts(t *testing.T) {
	const address = "127.0.0.7" // which only this test uses
	taken, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	listener, err := Open(Listen{Token: "t", Node: "w1", Addresses: []string{address}, Low: port - 1, High: port + 4})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	listener.Serve(ended)
	there := listener.Listening()[0]
	if there.Error != "" || len(there.Ports) != portsEach || there.Ports[0] != port-1 {
		t.Errorf("%d is taken: %+v", port, there)
	}
}

// A process that was kept from running until its calls' time was up still finds
// what has come for it.
func TestWaitAfterTheTime(t *testing.T) {
	poll, err := newPoll()
	if err != nil {
		t.Fatal(err)
	}
	defer poll.close()
	fd, err := listenAt(netip.MustParseAddrPort("127.0.0.1:0"))
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
