// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Host describes an in-process SSH host. The zero value is a healthy node that is known by its
// address and runs commands with /bin/sh.
type Host struct {
	// Name is the host's name in the hostfile. Only the ssh_config resolves it. Clients use the
	// address of a host without a name. Such a host needs no block in the ssh_config, which suits
	// fleets of thousands of hosts.
	Name string

	// Fault is what is wrong with the host. A nil Fault means a healthy host.
	Fault Fault

	// Exec handles the command instead of a shell and returns the exit status. It must end when
	// stdin ends.
	Exec func(command string, stdin io.Reader, stdout, stderr io.Writer) (status int)

	// Shell is the login shell that runs the command with -c; "" is /bin/sh. Debian's bash reads
	// ~/.bashrc, as it does under a real sshd.
	Shell string
	// Home is the directory in which commands start; "" means a new directory. Hosts with the same
	// Home share the directory like an NFS home.
	Home string
	// Files maps relative paths to the contents of files. The files are written below Home before
	// the first connection. Files that begin with #! are executable.
	Files map[string]string
	// Env is added to the minimal environment of a session.
	Env []string
}

// Counts holds the numbers of events that a host has seen so far.
type Counts struct {
	Connections int // TCP connections
	Logins      int // connections that have authenticated
	Sessions    int // session channels opened
	Execs       int // requests to run a command
}

// Fleet is a set of running in-process SSH hosts, with the home of a client that may log in to
// them.
type Fleet struct {
	// Home contains .ssh/config, .ssh/known_hosts, .ssh/id_ed25519 and .pub. Set HOME to this
	// directory, or pass the config to OpenSSH's ssh with -F.
	Home     string
	Hostfile string // text of the hostfile, in DeepSpeed's format
	// Port is the port on which all hosts listen, each on its own address.
	Port int
	// Key is the client's key, the only one that a healthy host accepts.
	Key ssh.Signer

	t         testing.TB
	hosts     []*host
	byName    map[string]*host
	scratch   string
	uid       string // what id -u prints on the hosts
	ctx       context.Context
	stop      context.CancelFunc
	listeners []net.Listener
	running   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// host is a running Host. A Fault changes its fields before it listens.
type host struct {
	Host
	fleet   *Fleet
	address string // 127.77.x.y
	key     ssh.Signer

	absent bool                                                   // nothing listens
	talk   func(ctx context.Context, conn net.Conn)               // replaces SSH on the connection
	open   func(ctx context.Context, channel ssh.NewChannel) bool // handles a new channel; false leaves the channel to the healthy behavior
	onExec execAnswer                                             // how the host answers an exec request
	run    func(s *session, command string)                       // runs an accepted command
	shims  map[string]string                                      // scripts that replace commands, by command name
	lacks  []string                                               // commands that are not installed

	environment                          func() (env []string, err error) // environment of the host's commands; created once
	connections, logins, sessions, execs atomic.Int64
}

// Start starts the hosts and returns when all of them listen. The hosts end with the test. The test
// fails if a client sends a request that a host does not expect. Each host uses one file
// descriptor, and each connection uses another one.
func Start(t testing.TB, hosts ...Host) *Fleet {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	f := &Fleet{
		t: t, Home: t.TempDir(), scratch: t.TempDir(), Key: newKey(t),
		byName: map[string]*host{}, conns: map[net.Conn]struct{}{},
		ctx: ctx, stop: stop,
	}
	t.Cleanup(f.close)
	f.number()
	for i, given := range hosts {
		f.add(given, i)
	}
	for attempt := 1; !f.listen(); attempt++ {
		if attempt == 100 {
			t.Fatal("testhosts: no port is free at the addresses of all hosts")
		}
	}
	f.writeHome()
	return f
}

var started atomic.Int64

// number gives the hosts' user an ID that no other fleet has. Files that commands create in shared
// directories under this ID belong to the fleet and are removed with it.
func (f *Fleet) number() {
	f.uid = strconv.FormatInt(1<<31+int64(os.Getpid())<<8+started.Add(1)&0xff, 10)
	id := "#!/bin/sh\n[ \"$*\" = -u ] && echo " + f.uid + " || exec /usr/bin/id \"$@\"\n"
	if err := writeFile(filepath.Join(f.scratch, "bin/id"), id); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
			left, _ := filepath.Glob(dir + "/*-" + f.uid) // the pattern is valid
			for _, path := range left {
				if err := os.RemoveAll(path); err != nil {
					f.t.Error(err)
				}
			}
		}
	})
}

func (f *Fleet) add(given Host, index int) {
	f.t.Helper()
	// Linux answers on all addresses of 127/8 without configuration.
	n := index + 1
	address := fmt.Sprintf("127.77.%d.%d", n>>8, n&0xff)
	given.Name = cmp.Or(given.Name, address)
	h := &host{Host: given, fleet: f, address: address, key: newKey(f.t), run: obey}
	h.environment = sync.OnceValues(h.makeEnvironment)
	if given.Fault != nil {
		given.Fault(h)
	}
	h.Shell = cmp.Or(h.Shell, "/bin/sh")
	if f.byName[h.Name] != nil {
		f.t.Fatalf("testhosts: two hosts are called %s", h.Name)
	}
	f.byName[h.Name] = h
	f.hosts = append(f.hosts, h)
}

// listen opens the sockets of all hosts on the port that the first host got. It returns false if
// another fleet on this machine uses this port at one of the addresses.
func (f *Fleet) listen() bool {
	f.t.Helper()
	listeners := map[*host]net.Listener{}
	f.Port = 0
	for _, h := range f.hosts {
		config := net.ListenConfig{KeepAlive: -1}
		listener, err := config.Listen(f.ctx, "tcp4", net.JoinHostPort(h.address, strconv.Itoa(f.Port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			for _, listener := range listeners {
				listener.Close()
			}
			return false
		}
		if err != nil {
			f.t.Fatalf("testhosts: %s: %v", h.Name, err)
		}
		f.Port = listener.Addr().(*net.TCPAddr).Port
		listeners[h] = listener
	}
	for h, listener := range listeners {
		if h.absent {
			listener.Close()
			continue
		}
		f.listeners = append(f.listeners, listener)
		f.running.Go(func() { h.accept(listener) })
	}
	return true
}

func (h *host) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		h.fleet.running.Go(func() { h.serve(conn) })
	}
}

// Address returns the host's address as IP:port.
func (f *Fleet) Address(name string) string {
	return net.JoinHostPort(f.host(name).address, strconv.Itoa(f.Port))
}

// Counts returns the host's counts so far.
func (f *Fleet) Counts(name string) Counts {
	h := f.host(name)
	return Counts{
		Connections: int(h.connections.Load()),
		Logins:      int(h.logins.Load()),
		Sessions:    int(h.sessions.Load()),
		Execs:       int(h.execs.Load()),
	}
}

// HomeOf returns the directory in which the host's commands start.
func (f *Fleet) HomeOf(name string) string { return f.host(name).home() }

func (f *Fleet) host(name string) *host {
	f.t.Helper()
	h := f.byName[name]
	if h == nil {
		f.t.Fatalf("testhosts: no host is called %s", name)
	}
	return h
}

// hold registers a connection that must be closed with the fleet. If the fleet has ended already,
// it closes the connection and returns false.
func (f *Fleet) hold(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		conn.Close()
		return false
	}
	f.conns[conn] = struct{}{}
	return true
}

func (f *Fleet) release(conn net.Conn) {
	conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// close ends every listener, connection and command, and waits for them.
func (f *Fleet) close() {
	for _, listener := range f.listeners {
		listener.Close()
	}
	f.mu.Lock()
	f.stop()
	for conn := range f.conns {
		conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// writeHome writes the files of the client's home and the hostfile.
func (f *Fleet) writeHome() {
	f.t.Helper()
	var hostfile, known strings.Builder
	for _, h := range f.hosts {
		fmt.Fprintf(&hostfile, "%s slots=8\n", h.Name)
		names := []string{net.JoinHostPort(h.address, strconv.Itoa(f.Port))}
		if h.Name != h.address {
			names = append(names, net.JoinHostPort(h.Name, strconv.Itoa(f.Port)))
		}
		known.WriteString(knownLine(names, h.key.PublicKey()))
	}
	f.Hostfile = hostfile.String()

	dir := filepath.Join(f.Home, ".ssh")
	private, public, err := f.Key.(key).files("testhosts")
	if err != nil {
		f.t.Fatal(err)
	}
	files := map[string]string{
		"config": f.sshConfig(), "known_hosts": known.String(),
		"id_ed25519": string(private), "id_ed25519.pub": string(public),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// sshConfig returns an ssh_config with the address of each named host. The ssh_config also excludes
// the developer's own configuration.
func (f *Fleet) sshConfig() string {
	var text strings.Builder
	for _, h := range f.hosts {
		if h.Name != h.address {
			fmt.Fprintf(&text, "Host %s\n\tHostName %s\n", h.Name, h.address)
		}
	}
	fmt.Fprintf(&text, `Host *
	Port %d
	IdentityFile %s
	IdentitiesOnly yes
	IdentityAgent none
	UserKnownHostsFile %s
	GlobalKnownHostsFile /dev/null
`, f.Port, filepath.Join(f.Home, ".ssh", "id_ed25519"), filepath.Join(f.Home, ".ssh", "known_hosts"))
	return text.String()
}
