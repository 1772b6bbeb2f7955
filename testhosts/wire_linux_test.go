// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// echo is a program that answers every line on its ports with the same line.
const echo = `
import socket, sys, threading
def serve(c):
    with c:
        try:
            while data := c.recv(4096): c.sendall(data)
        except OSError: pass
def listen(s):
    while True: threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()
for port in sys.argv[1:]:
    s = socket.create_server(("", int(port)))
    threading.Thread(target=listen, args=(s,)).start()
print("listening", flush=True)`

// call is a program that sends a line to every given address:port at the same time. It prints the
// results, which are ok or the error in one word. Port 22 must send its greeting.
const call = `
import errno, socket, sys, threading
def call(to):
    host, port = to.split(":")
    try:
        with socket.create_connection((host, int(port)), 1.5) as s:
            if port != "22": s.sendall(b"ping\n")
            said = s.recv(100)
            print(to, "ok" if said.startswith(b"SSH-" if port == "22" else b"ping") else repr(said))
    except TimeoutError: print(to, "silence")
    except OSError as e: print(to, errno.errorcode[e.errno])
for to in sys.argv[1:]: threading.Thread(target=call, args=(to,)).start()`

// longCall is a program that sends one megabyte in parts to an echo port. It prints whether
// everything came back.
const longCall = `python3 -c '
import socket
part = bytes(16384)
with socket.create_connection(("w1", 40000), 2) as s:
    try:
        for _ in range(64):
            s.sendall(part)
            left = len(part)
            while left: left -= len(s.recv(left))
        print("whole")
    except TimeoutError: print("cut")'`

// high and low are the echo ports. high is in the ephemeral range, and low is below it.
const high, low = "40000", "29500"

// callAll lets w1, w2, w3 and the launching machine connect to each other and to themselves. It
// returns the connections that failed, such as "w1 w2:40000", each with the error.
func callAll(t *testing.T, c *testhosts.Cluster) map[string]string {
	t.Helper()
	argv := []string{"python3", "-c", call}
	names := strings.NewReplacer("10.77.1.", "w")
	for _, to := range c.Nodes {
		for _, port := range []string{"22", low, high} {
			argv = append(argv, to.Address+":"+port)
		}
	}
	failed := map[string]string{}
	var lock sync.Mutex
	var calls sync.WaitGroup
	for _, from := range c.Machines() {
		calls.Go(func() {
			out, err := from.Run(t.Context(), argv...)
			lock.Lock()
			defer lock.Unlock()
			if lines := strings.Count(out, "\n"); err != nil || lines != len(argv)-3 {
				t.Errorf("%s: %d calls ended, want %d: %v", from.Name, lines, len(argv)-3, err)
			}
			for line := range strings.Lines(out) {
				to, result, _ := strings.Cut(strings.TrimSpace(line), " ")
				if result != "ok" {
					failed[strings.TrimPrefix(from.Name, c.Name+"-")+" "+names.Replace(to)] = result
				}
			}
		})
	}
	calls.Wait()
	return failed
}

// wiring returns the parts of a machine's network state that a fault may change. It leaves out the
// numbers of interfaces, because these are never reused. It also leaves out whether the other end
// of a link is up, because the kernel takes up to a second to notice this. The flags show whether
// an interface was set down.
func wiring(t *testing.T, c *testhosts.Cluster) string {
	t.Helper()
	var all strings.Builder
	for _, n := range c.Machines() {
		out, err := n.Run(t.Context(), "/bin/sh", "-c", `ip -o -d link | cut -d: -f2- | sed "s/@if[0-9]*//; s/link-netns[^ ]* [0-9]*//; s/NO-CARRIER,//; s/ state [A-Z]*//"
ip -4 -o addr | cut -d: -f2-; ip -4 route show table all; ip -4 neigh show nud permanent | sort; iptables -S
ls -l /root/.ssh /etc/hosts | sed "s/ [A-Z][a-z][a-z] .*:.. / /"; cat /root/.ssh/* /etc/hosts`)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(n.Name + ":\n" + out)
	}
	return all.String()
}

func listen(t *testing.T, n *testhosts.Node) {
	t.Helper()
	cmd := n.Command(context.Background(), "python3", "-c", echo, high, low)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // the process was killed, as intended
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s does not listen: %q, %v", n.Name, said, err)
	}
}

// TestWire causes every network fault on w2. It checks that exactly the expected connections fail,
// and that nothing is left after Undo.
func TestWire(t *testing.T) { testhosts.InParts(t, sharing(3), wire) }

func wire(t *testing.T, c *testhosts.Cluster, mine func(row int) bool) {
	w1, w2 := c.Nodes[0], c.Nodes[1]
	for _, n := range c.Nodes {
		listen(t, n)
	}
	ctx := t.Context()
	// fromOthers returns the given result for connections from all other machines to w2. towards
	// returns the given result for connections from w2 to the other nodes.
	fromOthers := func(result string, ports ...string) map[string]string {
		failed := map[string]string{}
		for _, port := range ports {
			for _, from := range []string{"head", "w1", "w3"} {
				failed[from+" w2:"+port] = result
			}
		}
		return failed
	}
	cut := func(own string, peers ...string) map[string]string {
		failed := map[string]string{}
		for _, peer := range peers {
			for _, port := range []string{"22", low, high} {
				failed["w2 "+peer+":"+port] = own
				failed[peer+" w2:"+port] = "silence"
			}
		}
		return failed
	}
	tests := []struct {
		name  string
		plant func() (testhosts.Undo, error)
		fail  map[string]string
		look  string // a command on w2, and part of its output
		sees  string
	}{
		{"ephemeral ports dropped", func() (testhosts.Undo, error) { return w2.Drop(testhosts.Ephemeral) }, fromOthers("silence", high), "", ""},
		{"ephemeral ports refused", func() (testhosts.Undo, error) { return w2.Reject(testhosts.Ephemeral) }, fromOthers("ECONNREFUSED", high), "", ""},
		{"ephemeral ports prohibited", func() (testhosts.Undo, error) { return w2.Prohibit(testhosts.Ephemeral) }, fromOthers("EHOSTUNREACH", high), "", ""},
		{"ephemeral ports reset", func() (testhosts.Undo, error) { return w2.ResetAfterAccept(testhosts.Ephemeral) }, fromOthers("ECONNRESET", high), "", ""},
		{"all but ssh dropped", func() (testhosts.Undo, error) { return w2.Drop("1:21", "23:65535") }, fromOthers("silence", low, high), "", ""},
		{"one way, one peer", func() (testhosts.Undo, error) { return w2.DropFrom(w1, testhosts.Ephemeral) }, map[string]string{"w1 w2:" + high: "silence"}, "", ""},
		{"cut flows", func() (testhosts.Undo, error) { return w2.CutAfter(300_000) }, nil, longCall, "cut\n"},
		{"no routes", w2.LoseRoutes, cut("ENETUNREACH", "w1", "w3"), "ip -4 route", "10.77.0.1 dev eth0"},
		{"docker0", w2.AddDocker0, nil, "hostname -I", "10.77.1.2 172.17.0.1 \n"},
		{"docker0 first", w2.AddDocker0First, nil, "hostname -I", "172.17.0.1 10.77.1.2 \n"},
		{"isolated NIC", func() (testhosts.Undo, error) {
			return w2.AddNIC(testhosts.NIC{Name: "mgmt0", Prefix: "10.78.1.2/16"})
		}, nil, "hostname -I", "10.77.1.2 10.78.1.2 \n"},
		{"tunnel first", func() (testhosts.Undo, error) {
			return w2.AddNIC(testhosts.NIC{Name: "tailscale0", Prefix: "100.64.0.2/32", First: true})
		}, nil, "hostname -I", "100.64.0.2 10.77.1.2 \n"},
		{"renamed NIC", func() (testhosts.Undo, error) { return w2.RenameNIC("enp4s0") }, nil, "ip -4 -o addr", "enp4s0"},
		{"jumbo frames", func() (testhosts.Undo, error) { return w2.SetMTU(9000) }, nil, "ip -o link", "mtu 9000"},
		{"no such name", func() (testhosts.Undo, error) { return w2.ForgetName("w1") }, nil, "getent hosts w1; echo $?; getent hosts w3", "2\n10.77.1.3 "},
	}
	healthy := wiring(t, c)
	if failed := callAll(t, c); len(failed) > 0 {
		t.Fatalf("with no trouble planted: %v", failed)
	}
	for i, test := range tests {
		if !mine(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			undo, err := test.plant()
			if err != nil {
				t.Fatal(err)
			}
			failed := callAll(t, c)
			saw := ""
			if test.look != "" {
				out, _ := w2.Command(ctx, "/bin/sh", "-c", test.look).CombinedOutput() // the output contains the result
				saw = string(out)
			}
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			if test.fail == nil {
				test.fail = map[string]string{}
			}
			if diff := cmp.Diff(test.fail, failed); diff != "" {
				t.Errorf("what fails (-want +got):\n%s", diff)
			}
			if !strings.Contains(saw, test.sees) {
				t.Errorf("%s printed %q, want %q", test.look, saw, test.sees)
			}
			if diff := cmp.Diff(healthy, wiring(t, c)); diff != "" {
				t.Errorf("left behind (-before +after):\n%s", diff)
			}
		})
	}
	if failed := callAll(t, c); len(failed) > 0 {
		t.Errorf("with all undone: %v", failed)
	}
}

// TestLoginsBetweenNodes checks faults with which logins between nodes fail, but logins from the
// launching machine work. pdsh needs only the latter.
func TestLoginsBetweenNodes(t *testing.T) {
	c := raise(t, 3)
	w2 := c.Nodes[1]
	// logins returns the logins that succeed from w1, w2 and the launching machine. For other
	// logins it returns the last line that ssh prints.
	logins := func() string {
		return onHead(t, c, `for from in w1 w2 `+c.Name+`-head; do for to in w2 w3; do
echo "$from $to:" $(ssh $from ssh -o BatchMode=yes $to hostname 2>&1 | tail -1); done; done | tr -d '\r' | sed "s/^`+c.Name+`-//"`)
	}
	healthy := wiring(t, c)
	fine := "w1 w2: w2\nw1 w3: w3\nw2 w2: w2\nw2 w3: w3\nhead w2: w2\nhead w3: w3\n"
	const denied = "root@w%d: Permission denied (publickey)."
	tests := map[string]struct {
		plant func() (testhosts.Undo, error)
		want  string
	}{
		"no private key":   {w2.RemovePrivateKey, "w1 w2: w2\nw1 w3: w3\nw2 w2: " + fmt.Sprintf(denied, 2) + "\nw2 w3: " + fmt.Sprintf(denied, 3) + "\nhead w2: w2\nhead w3: w3\n"},
		"head only":        {w2.AdmitHeadOnly, "w1 w2: " + fmt.Sprintf(denied, 2) + "\nw1 w3: w3\nw2 w2: " + fmt.Sprintf(denied, 2) + "\nw2 w3: w3\nhead w2: w2\nhead w3: w3\n"},
		"unknown host key": {w2.UnknownToPeers, "w1 w2: Host key verification failed.\nw1 w3: w3\nw2 w2: w2\nw2 w3: w3\nhead w2: w2\nhead w3: w3\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			undo, err := test.plant()
			if err != nil {
				t.Fatal(err)
			}
			planted := logins()
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, planted); diff != "" {
				t.Errorf("planted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fine, logins()); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(healthy, wiring(t, c)); diff != "" {
				t.Errorf("left behind (-before +after):\n%s", diff)
			}
		})
	}
}

// TestAddNIC checks that interfaces in the same network reach each other, and that other interfaces
// do not.
func TestAddNIC(t *testing.T) {
	c := raise(t, 3)
	for i, network := range []string{"mgmt", "mgmt", ""} {
		n := c.Nodes[i]
		nic := testhosts.NIC{Name: "mgmt0", Prefix: strings.Replace(n.Address, "10.77", "10.78", 1) + "/16", Network: network}
		if _, err := n.AddNIC(nic); err != nil {
			t.Fatal(err)
		}
		if _, err := n.AddNIC(nic); err == nil {
			t.Error("it was added twice")
		}
	}
	const pings = `for to in 1 2 3; do timeout 1 bash -c "</dev/tcp/10.78.1.$to/22" 2>/dev/null && echo $to; done; cat /sys/class/net/mgmt0/operstate`
	for i, want := range []string{"1\n2\nup\n", "1\n2\nup\n", "3\nup\n"} {
		if got, err := c.Nodes[i].Run(t.Context(), "/bin/sh", "-c", pings); err != nil || got != want {
			t.Errorf("%s reaches %q, want %q: %v", c.Nodes[i].Name, got, want, err)
		}
	}
	// A restarted node has lost its additional interface, and must be able to get another one.
	w1 := c.Nodes[0]
	if err := w1.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w1.AddNIC(testhosts.NIC{Name: "mgmt0", Prefix: "10.78.1.1/16", Network: "mgmt"}); err != nil {
		t.Fatal(err)
	}
	if got, err := w1.Run(t.Context(), "/bin/sh", "-c", pings); err != nil || got != "1\n2\nup\n" {
		t.Errorf("after a restart w1 reaches %q: %v", got, err)
	}
}

// TestNarrowPeers checks that large packets of other nodes are dropped. Small packets, and all
// packets of the launching machine, must pass.
func TestNarrowPeers(t *testing.T) {
	c := raise(t, 3)
	w2 := c.Nodes[1]
	// sshd closes the connection if a line is too long, but only after it has received the line.
	const cross = `python3 -c 'import socket
s = socket.create_connection(("w2", 22), 5); s.recv(9); s.settimeout(2)
s.sendall(b"A" * 9000)
try:
  while s.recv(9999): pass
except ConnectionResetError: pass
except TimeoutError: print("lost"); raise SystemExit
print("crossed")'`
	crossings := func() map[string]string {
		came := map[string]string{"head": onHead(t, c, cross)}
		for _, n := range []int{0, 2} {
			out, err := c.Nodes[n].Run(t.Context(), "/bin/sh", "-c", cross)
			if err != nil {
				t.Fatal(err)
			}
			came[c.Nodes[n].Name] = out
		}
		return came
	}
	fine := map[string]string{"head": "crossed\n", "w1": "crossed\n", "w3": "crossed\n"}
	healthy := wiring(t, c)
	undo, err := w2.NarrowPeers(1300)
	if err != nil {
		t.Fatal(err)
	}
	planted := crossings()
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"head": "crossed\n", "w1": "lost\n", "w3": "lost\n"}, planted); diff != "" {
		t.Errorf("planted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fine, crossings()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(healthy, wiring(t, c)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}
