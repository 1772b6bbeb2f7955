// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStrangers checks that strangers do not keep a peer from being answered, and leave nothing
// behind. There may be any number of strangers, and they may send anything.
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

	// This peer connects before all strangers, and sends its payload slowly.
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
	for i := range 900 {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", ports[i%portsEach]))
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, conn)
		switch i % 3 { // one in three strangers sends nothing
		case 1:
			conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		case 2:
			conn.Write(message{kind: meshHello}.encode(keyOf("token"))[:9])
		}
	}
	peer := Peer{Name: "w2", Address: "127.0.0.2", Ports: ports}
	mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{peer}, AllPorts: true}.Run(t.Context())
	if len(mesh.Reached) != 1 {
		t.Errorf("%+v", mesh.Failed)
	}
	// The last silent stranger must still be connected.
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

// TestAtOnce checks that a caller that sent everything at once is answered at once. After that it
// costs only an open file, which is closed when files run out.
func TestAtOnce(t *testing.T) {
	listener, err := Open(Listen{Token: "token", Node: "w2", Addresses: []string{"127.0.0.2"}})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	defer listener.Serve(ended)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", listener.Listening()[0].Ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(exchangeTime))
	if _, err := conn.Write(append(message{kind: meshHello, amount: 1000, name: "w1"}.encode(keyOf("token")), make([]byte, 1000)...)); err != nil {
		t.Fatal(err)
	}
	for _, n := range listener.poll.wait(t.Context(), time.Time{}) {
		listener.accept(t.Context(), int(n.Fd))
	}
	if len(listener.callers) != 1 {
		t.Fatalf("%+v", listener.callers)
	}
	if !listener.makeRoom() || listener.makeRoom() || len(listener.callers) != 0 {
		t.Errorf("%d callers are left", len(listener.callers))
	}
	told, err := io.ReadAll(conn)
	answer, rest, wrong := decode(told, keyOf("token"), meshAnswer)
	if err != nil || wrong != nil || answer.name != "w2" || rest[0] != received || uint64(len(rest)-1) != answer.amount {
		t.Errorf("%+v and %d bytes came (%v, %v)", answer, len(rest), err, wrong)
	}
}

// TestOpen checks that each third of the range gets a port, and that failures to listen are
// reported.
func TestOpen(t *testing.T) {
	tests := []struct {
		name   string
		listen Listen
		want   []Listening // of the ports, the test compares only the number
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
			[]Listening{{Address: "w1", Error: "cannot listen on w1: it is not an IP address"}}, ""},
		{"a small range", Listen{Token: "t", Node: "w1", Addresses: []string{"127.0.0.2"}, Low: 40000, High: 40001},
			[]Listening{{Address: "127.0.0.2", Ports: make([]int, 1)}}, ""},
		{"no token", Listen{Node: "w1"}, nil, "listening needs a token: without one every caller would pass as a peer"},
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

// TestOpenFindsFreePorts checks that a free port is found in a small range in which others are taken, and
// outside a range in which all are.
func TestOpenFindsFreePorts(t *testing.T) {
	const address = "127.0.0.7" // only this test uses it
	taken, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, high := range []int{port + 1, port} {
		listener, err := Open(Listen{Token: "t", Node: "w1", Addresses: []string{address}, Low: port, High: high})
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		listener.Serve(ended)
		there := listener.Listening()[0]
		isFree := len(there.Ports) == 1 && (there.Ports[0] == port+1 || high == port && there.Ports[0] != port)
		if there.Error != "" || !isFree {
			t.Errorf("%d to %d, and %d is taken: %+v", port, high, port, there)
		}
	}
}
