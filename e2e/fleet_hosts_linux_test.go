// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"preflight/agent"
	"preflight/drill"
	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/remote"
	"preflight/testhosts/fleettest"
)

// This file has the hosts of BenchmarkFleet and TestUnderLoad. The connection to a host is real:
// ssh over TCP and the agent's protocol, with an address and a host key for each host. The hosts'
// facts are invented. They are those of a healthy fleet and differ for each host, as ten thousand
// machines might report them. The drills are real or modelled. In a modelled drill a host connects
// to no other host, but reports that the others answered and that all have joined.

// modelled is a file with shared data that all processes of hosts map into memory.
type modelled struct {
	joined                 *atomic.Int64
	received, sent, served *atomic.Int64 // bytes of ssh, and number of logins

	mu     sync.Mutex
	worlds map[int64]chan struct{}
}

// met returns a channel that is closed when world hosts have joined. In each process, one goroutine
// waits for all hosts of the process.
func (m *modelled) met(world int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.worlds == nil {
		m.worlds = map[int64]chan struct{}{}
	}
	if m.worlds[world] == nil {
		all := make(chan struct{})
		m.worlds[world] = all
		go func() {
			defer close(all)
			for m.joined.Load() < world {
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	return m.worlds[world]
}

func openModelled(path string) (*modelled, error) {
	const size = 64
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	shared, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	number := func(i int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&shared[8*i])) }
	return &modelled{joined: number(0), received: number(1), sent: number(2), served: number(3)}, nil
}

// hostsKey returns the key that every host accepts, and hostKey the host key of host i. Both are
// derived from constants, so they are not secret.
func hostsKey() ed25519.PrivateKey { return hostKey(-1) }

func hostKey(i int) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, fmt.Sprintf("preflight bench %d", i))
	return ed25519.NewKeyFromSeed(seed)
}

func signerOf(key ed25519.PrivateKey) ssh.Signer {
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		panic(err) // ed25519 is always supported
	}
	return signer
}

// benchHosts runs one process of hosts. Several processes share the port, and the kernel
// distributes the connections. The local address of a connection shows to which host the client
// connects.
func benchHosts(shared string, count int, real bool) error {
	known, err := openModelled(shared)
	if err != nil {
		return err
	}
	names := benchNames(count)
	config := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); failed != nil {
			return failed
		}
		return err
	}}
	listener, err := config.Listen(context.Background(), "tcp4", ":22")
	if err != nil {
		return err
	}
	fmt.Println("listening")
	own := signerOf(hostsKey()).PublicKey().Marshal()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		var a, b, c, d int
		if _, err := fmt.Sscanf(conn.LocalAddr().String(), "%d.%d.%d.%d", &a, &b, &c, &d); err != nil {
			return err
		}
		h := &benchHost{modelled: known, names: names, i: c*250 + d - 1, real: real}
		go h.serve(conn, own)
	}
}

func benchNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("w%d", i+1)
	}
	return names
}

type benchHost struct {
	*modelled
	names []string
	i     int
	real  bool // the host's drills are real
}

// counted is a connection that counts its bytes.
type counted struct {
	net.Conn
	*modelled
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func (h *benchHost) serve(conn net.Conn, authorized []byte) {
	defer conn.Close()
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-OpenSSH_9.2p1",
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(authorized) {
				return nil, fmt.Errorf("not the key of this fleet")
			}
			return nil, nil
		},
	}
	config.AddHostKey(signerOf(hostKey(h.i)))
	_, channels, requests, err := ssh.NewServerConn(counted{conn, h.modelled}, config)
	if err != nil {
		return
	}
	h.served.Add(1)
	go func() {
		for r := range requests {
			if r.WantReply {
				_ = r.Reply(false, nil)
			}
		}
	}()
	for open := range channels {
		channel, requests, err := open.Accept()
		if err != nil {
			return
		}
		go h.session(channel, requests)
	}
}

func (h *benchHost) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(r.Type == "exec", nil)
		}
		if r.Type == "exec" {
			break
		}
	}
	go ssh.DiscardRequests(requests)
	in := bufio.NewReader(channel)
	if _, err := in.ReadString('\n'); err != nil { // the shell command that looks for the agent, which is installed
		return
	}
	status := struct{ Status uint32 }{}
	if err := remote.Serve(context.Background(), in, channel, h.methods()); err != nil {
		status.Status = 1
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
}

// methods returns the agent's methods, or only those that the benchmark calls if the drills are
// modelled.
func (h *benchHost) methods() map[string]remote.Method {
	me := fleettest.Node(h.i, h.names)
	answer := func(reply remote.Reply, value any) error {
		return reply("answer", agent.Encode(value), false)
	}
	methods := map[string]remote.Method{
		"probe": func(_ context.Context, params json.RawMessage, reply remote.Reply) error {
			var asked agent.Probing
			if err := json.Unmarshal(params, &asked); err != nil {
				return err
			}
			node := fleettest.Node(h.i, h.names)
			h.lookUp(&node, asked)
			for _, section := range asked.Sections {
				var one facts.Facts
				one.Take(section, node.Facts)
				if err := reply(string(section), agent.Encode(agent.Probed{Seen: one}), false); err != nil {
					return err
				}
			}
			return nil
		},
		"listen": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
			var listen mesh.Listen
			if err := json.Unmarshal(params, &listen); err != nil {
				return err
			}
			var all []mesh.Listening
			for _, address := range listen.Addresses {
				all = append(all, mesh.Listening{Address: address, Ports: me.Mesh.Ports})
			}
			err := answer(reply, all)
			<-ctx.Done()
			return err
		},
		"mesh": func(_ context.Context, params json.RawMessage, reply remote.Reply) error {
			var calls mesh.Calls
			if err := json.Unmarshal(params, &calls); err != nil {
				return err
			}
			called := facts.Mesh{MSS: me.Mesh.MSS, Reached: map[string]float64{}}
			for at, peer := range calls.Peers {
				called.Reached[peer.Name] = 0.0002 + float64(at+h.i%97)*1e-7
			}
			return answer(reply, called)
		},
		"serve": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
			var host drill.Host
			if err := json.Unmarshal(params, &host); err != nil {
				return err
			}
			err := answer(reply, drill.Serving{Port: host.Port})
			<-ctx.Done()
			return err
		},
		"join": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
			var join drill.Join
			if err := json.Unmarshal(params, &join); err != nil {
				return err
			}
			began, seen := time.Now(), *me.Rendezvous
			h.joined.Add(1)
			ctx, cancel := context.WithTimeout(ctx, join.Deadline)
			defer cancel()
			select {
			case <-ctx.Done():
				seen.Failed, seen.Complete, seen.Error = facts.HopWait, 0, fmt.Sprintf("%d of %d nodes joined in time", h.joined.Load(), join.World)
				return answer(reply, seen)
			case <-h.met(int64(join.World)):
			}
			seen.Complete = seen.Joined + time.Since(began).Seconds()
			return answer(reply, seen)
		},
	}
	if h.real {
		real := agent.Methods()
		real["probe"] = methods["probe"]
		return real
	}
	return methods
}

// lookUp adds the names and routes that the request asks for.
func (h *benchHost) lookUp(node *facts.Node, asked agent.Probing) {
	address := func(name string) string {
		i, err := strconv.Atoi(strings.TrimPrefix(name, "w"))
		if err != nil {
			return ""
		}
		return fleettest.Address(i - 1)
	}
	names := node.Names
	names.Lookups, names.Asked = []facts.Lookup{{Name: names.Own, Addresses: []string{fleettest.Address(h.i)}}}, asked.Hosts
	for _, name := range asked.Names {
		if name != names.Own {
			names.Lookups = append(names.Lookups, facts.Lookup{Name: name, Addresses: []string{address(name)}})
		}
	}
	node.Net.Routes = nil
	for name, to := range asked.Peers {
		route := facts.Route{Name: name, To: to, Interface: "eth0", Source: fleettest.Address(h.i)}
		if name == names.Own {
			route.Interface = "lo"
		}
		node.Net.Routes = append(node.Net.Routes, route)
	}
}

// enterOwnNetwork gives this process, which is alone in its namespaces, the addresses and names of
// all hosts.
func enterOwnNetwork(scratch string, count int) error {
	var hosts strings.Builder
	fmt.Fprintln(&hosts, "127.0.0.1 localhost")
	for i, name := range benchNames(count) {
		fmt.Fprintln(&hosts, fleettest.Address(i), name)
	}
	path := filepath.Join(scratch, "hosts")
	if err := os.WriteFile(path, []byte(hosts.String()), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(path, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	out, err := exec.Command("sh", "-c", "ip link set lo up && ip route add local 10.0.0.0/16 dev lo").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// benchHome writes the home of a user who may log in to all hosts.
func benchHome(scratch string, count int) error {
	dir := filepath.Join(scratch, ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	private, err := ssh.MarshalPrivateKey(hostsKey(), "bench")
	if err != nil {
		return err
	}
	var known, list strings.Builder
	for i, name := range benchNames(count) {
		fmt.Fprintf(&known, "%s %s", name, ssh.MarshalAuthorizedKey(signerOf(hostKey(i)).PublicKey()))
		fmt.Fprintf(&list, "%s slots=8\n", name)
	}
	for name, text := range map[string]string{".ssh/known_hosts": known.String(), ".ssh/id_ed25519": string(pem.EncodeToMemory(private)), "hostfile": list.String()} {
		if err := os.WriteFile(filepath.Join(scratch, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
