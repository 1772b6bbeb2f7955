// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/text"
	"preflight/remote"
)

// The time limits for a node whose configuration has no ConnectTimeout.
const (
	// connectTimeout is the limit that pdsh gives ssh (pdsh 2.34, ssh module). A launch waits no
	// longer for a node that answers no packet.
	connectTimeout = 10 * time.Second
	// handshakeTimeout covers the connection and the key exchange. It is three times as long as
	// connectTimeout, because the key exchange depends on the load of both machines.
	handshakeTimeout = 30 * time.Second
)

// Dial logs in to a node by its name in the hostfile. It returns the connection and a trace of the
// way to the node. The trace is never nil, and an error is always an *Error.
//
// ctx limits the login: when ctx ends, the underlying connection is closed, which ends every call
// that waits for a frozen server. The caller must close the returned connection, which ends its
// calls in the same way.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	client, trace, failure := c.dialHop(ctx, c.hopTo(name), nil)
	if failure != nil {
		failure.Host = name
		return nil, trace, failure
	}
	return client, trace, nil
}

// Files counts one socket per node. A ProxyCommand adds its standard error and the file that
// reports its end. All nodes behind one jump host share one connection to that host.
func (c *Carrier) Files(names []string) (files int) {
	jumps := map[hop]bool{}
	for _, name := range names {
		t, err := c.resolve(c.hopTo(name))
		switch {
		case err != nil: // no connection is made
		case t.jump != nil && jumps[*t.jump]:
		case t.jump != nil:
			jumps[*t.jump] = true
			files++
		case t.proxyCommand != "":
			files += 3
		default:
			files++
		}
	}
	return files
}

// hopTo returns the hop for a node's name in the hostfile.
func (c *Carrier) hopTo(name string) hop {
	user, host := userAndHost(name)
	return hop{name: host, user: cmp.Or(user, c.options.User), port: c.options.Port}
}

// dialHop logs in to one hop. crossed lists the hops that wait for this hop, so that a cycle is
// detected.
func (c *Carrier) dialHop(ctx context.Context, h hop, crossed []hop) (*connection, *remote.Trace, *remote.Error) {
	begun := time.Now()
	trace := &remote.Trace{}
	t, err := c.resolve(h)
	if err != nil {
		return nil, trace, &remote.Error{Host: h.name, Stage: remote.StageResolve, Cause: remote.Unexpected, Err: fmt.Errorf("ssh configuration: %w", err)}
	}
	trace.User, trace.Port, trace.OpenSSH = t.user, t.port, t.openSSH
	a := &attempt{client: c, hop: h, target: t, trace: trace, begun: begun, connection: &connection{}}
	client, failure := a.run(ctx, crossed)
	if failure != nil {
		failure.Host = h.name
		return nil, trace, failure
	}
	trace.Connected = time.Since(begun)
	return client, trace, nil
}

// attempt is one attempt to log in to a resolved target. Its fields show how far it got.
type attempt struct {
	client *Carrier
	hop    hop
	target *target
	trace  *remote.Trace
	begun  time.Time

	connection *connection
	wire       *greetingConn
	proxy      *proxyConn // set if the connection goes through a ProxyCommand
	verifier   *verifier
	login      *login

	// The library's key exchange sets these fields. It may outlive a handshake that we aborted.
	refused  atomic.Pointer[remote.Error]
	verified atomic.Bool

	shakenHands func() bool // ends the handshake's own deadline

	reconnect func(context.Context) (net.Conn, error) // connects again; nil for jump hosts and ProxyCommands
}

// run connects and logs in. ConnectTimeout limits everything up to the host key, as in OpenSSH.
func (a *attempt) run(ctx context.Context, crossed []hop) (*connection, *remote.Error) {
	handshake, cancel := context.WithTimeout(ctx, cmp.Or(a.target.connectTimeout, handshakeTimeout))
	defer cancel()
	conn, failure := a.connect(handshake, crossed)
	if failure != nil {
		return nil, failure
	}
	a.wire = &greetingConn{Conn: conn, buffered: bufio.NewReader(conn), path: a.watch(conn)}
	a.verifier = a.client.verifier(a.target)
	a.login = &login{ctx: ctx, client: a.client, target: a.target}

	free := context.AfterFunc(ctx, func() { a.wire.Close() })
	a.shakenHands = context.AfterFunc(handshake, func() { a.wire.Close() })
	sshConn, channels, requests, err := ssh.NewClientConn(a.wire, a.target.address(), a.sshConfig())
	var late error
	if !free() {
		late = context.Cause(ctx)
	} else if !a.shakenHands() && !a.verified.Load() {
		late = context.Cause(handshake)
	}
	a.trace.Banner = a.wire.version()
	if a.verified.Load() {
		a.trace.OpenSSH = append(a.trace.OpenSSH, a.verifier.notes...)
	}
	if err == nil && late == nil {
		a.connection.Conn, a.connection.channels, a.connection.requests = sshConn, channels, requests
		a.login.ctx, a.shakenHands = nil, nil // the library keeps a reference to login as long as the connection lives
		return a.connection, nil
	}
	a.wire.Close()
	return nil, a.explain(late, err)
}

// watch starts to watch the packets of a direct connection. It returns nil for any other
// connection.
func (a *attempt) watch(conn net.Conn) *path {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	a.connection.path = &path{
		conn:      tcp,
		reconnect: a.reconnect,
		login: func(ctx context.Context) (*connection, error) {
			second, _, failure := a.client.dialHop(ctx, a.hop, nil)
			if failure != nil {
				return nil, failure
			}
			return second, nil
		},
		// If the timeout is short, it must still leave time for the proof.
		idle: min(maxIdle, a.client.options.Timeout/4, cmp.Or(a.target.connectTimeout, handshakeTimeout)/4),
	}
	a.connection.path.watch()
	return a.connection.path
}

func (a *attempt) sshConfig() *ssh.ClientConfig {
	t := a.target
	return &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: t.kex,
			Ciphers:      t.ciphers,
			MACs:         t.macs,
		},
		User:              t.user,
		HostKeyAlgorithms: a.verifier.algorithms(),
		HostKeyCallback: func(_ string, server net.Addr, key ssh.PublicKey) error {
			if refused := a.verifier.check(server, key); refused != nil {
				a.refused.Store(refused)
				return refused
			}
			if !a.verified.Swap(true) { // only for the first key exchange
				a.shakenHands()
			}
			return nil
		},
		BannerCallback: a.login.keepBanner,
		AuthCallback:   a.login.next,
	}
}

// connect connects to the target: directly, through a jump host or through a command.
func (a *attempt) connect(ctx context.Context, crossed []hop) (net.Conn, *remote.Error) {
	if named, err := netip.ParseAddr(a.target.host); err == nil {
		a.trace.Address = named.String() // a jump host does not look it up
	}
	switch {
	case a.target.jump != nil:
		return a.connectVia(ctx, crossed)
	case a.target.proxyCommand != "":
		proxy, err := startProxy(a.target.shell, a.target.proxyCommand)
		if short := remote.Short(remote.StageConnect, err); short != nil {
			return nil, short
		}
		if err != nil {
			return nil, &remote.Error{Stage: remote.StageConnect, Cause: remote.ProxyFailed, Err: err, Detail: map[string]string{"command": a.target.proxyCommand}}
		}
		a.proxy = proxy
		return proxy, nil
	}
	addresses, failure := a.lookup(ctx)
	if failure != nil {
		return nil, failure
	}
	return a.connectTo(ctx, addresses)
}

// connectTo tries the addresses in the resolver's order, as ssh does. Each address gets an equal
// part of the remaining time, so that a dead first address does not hide a working second one.
func (a *attempt) connectTo(ctx context.Context, addresses []netip.Addr) (net.Conn, *remote.Error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.target.connectTimeout, connectTimeout))
	defer cancel()
	var dialer net.Dialer
	if a.target.bindAddress != "" {
		local, err := netip.ParseAddr(a.target.bindAddress)
		if err != nil {
			return nil, &remote.Error{Stage: remote.StageConnect, Cause: remote.Unexpected, Err: fmt.Errorf("BindAddress %q is not an address", a.target.bindAddress)}
		}
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	var errs []error
	for i, address := range addresses {
		endpoint := netip.AddrPortFrom(address.Unmap(), uint16(a.target.port))
		a.trace.Address = endpoint.Addr().String()
		deadline, _ := ctx.Deadline()
		part, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i))
		conn, err := dialer.DialContext(part, a.target.network, endpoint.String())
		cancel()
		if err == nil {
			a.reconnect = func(ctx context.Context) (net.Conn, error) {
				return dialer.DialContext(ctx, a.target.network, endpoint.String())
			}
			for _, failed := range errs {
				a.trace.OpenSSH = append(a.trace.OpenSSH, fmt.Sprintf("an earlier address failed (%v): every ssh to this node waits for that first", failed))
			}
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	last := errs[len(errs)-1]
	if a.target.bindAddress != "" && errors.Is(last, syscall.EADDRNOTAVAIL) {
		return nil, &remote.Error{Stage: remote.StageConnect, Cause: remote.Unexpected,
			Err: fmt.Errorf("BindAddress %s in the configuration of ssh is no address of the launching machine", a.target.bindAddress)}
	}
	if short := remote.Short(remote.StageConnect, last); short != nil {
		return nil, short
	}
	detail := map[string]string{
		"address": a.trace.Address,
		"port":    strconv.Itoa(a.target.port),
		"after":   text.Duration(time.Since(a.begun).Seconds()),
	}
	return nil, &remote.Error{Stage: remote.StageConnect, Cause: connectCause(ctx, errs[len(errs)-1]), Detail: detail, Err: errors.Join(errs...)}
}

// greetingConn reads through a buffer, because the library reads the version line byte by byte. It
// keeps the version line and the text before it.
type greetingConn struct {
	net.Conn
	path     *path         // nil if the connection is not watched
	buffered *bufio.Reader // nil after everything that came with the greeting has been read
	greeting []byte
	greeted  bool // the version line has been read; greeting does not change any more
}

// maxGreeting is the maximum number of bytes before a server's version line that are kept.
const maxGreeting = 1 << 10

// errProtocol stops a handshake with a server that supports only SSH 1.
var errProtocol = errors.New("protocol major versions differ")

func (w *greetingConn) Read(p []byte) (int, error) {
	if w.buffered == nil {
		return w.Conn.Read(p)
	}
	n, err := w.buffered.Read(p)
	if w.greeted {
		if w.buffered.Buffered() == 0 {
			w.buffered = nil // the library itself buffers what follows
		}
		return n, err
	}
	w.greeting = append(w.greeting, p[:min(n, maxGreeting-len(w.greeting))]...)
	if !bytes.HasSuffix(w.greeting, []byte("\n")) {
		return n, err
	}
	if line := w.lastLine(); strings.HasPrefix(line, "SSH-") {
		w.greeted = strings.HasPrefix(line, "SSH-2.0-") || strings.HasPrefix(line, "SSH-1.99-")
		if !w.greeted {
			return 0, errProtocol
		}
	}
	return n, err
}

func (w *greetingConn) Close() error {
	w.path.close()
	return w.Conn.Close()
}

func (w *greetingConn) lastLine() string {
	end := len(bytes.TrimRight(w.greeting, "\n"))
	return string(w.greeting[bytes.LastIndexByte(w.greeting[:end], '\n')+1:])
}

// version returns the server's version line, "" if there was none.
func (w *greetingConn) version() string {
	if !w.greeted {
		return ""
	}
	return strings.TrimRight(w.lastLine(), "\r\n")
}

// lookup resolves the host name once.
func (a *attempt) lookup(ctx context.Context) ([]netip.Addr, *remote.Error) {
	family := strings.Replace(a.target.network, "tcp", "ip", 1)
	addresses, err := a.client.names.LookupNetIP(ctx, family, a.target.host)
	if len(addresses) > 0 {
		return addresses, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.Interrupted, Err: cause}
	}
	if short := remote.Short(remote.StageResolve, err); short != nil {
		return nil, short
	}
	words := resolverWords(err)
	if ctx.Err() != nil {
		words = fmt.Sprintf("the resolver did not answer in time (waited %s)", a.after())
		err = fmt.Errorf("lookup %s: %s", a.target.host, words)
	}
	return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NameUnknown, Err: err, Detail: map[string]string{
		"name": a.target.host, "resolver": words,
	}}
}
