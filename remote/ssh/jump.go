// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// jumps keeps one connection to every jump host. The first node that needs the jump host makes the
// connection, and all nodes behind that host share it.
type jumps struct {
	life context.Context // life of every connection in open
	end  context.CancelFunc
	open cache[hop, *jump]
	busy sync.WaitGroup // dials in progress
}

// jump is the connection to one jump host. The fields are final once done is closed.
type jump struct {
	done    chan struct{}
	client  *connection
	tunnels *ssh.Client // a client on this connection
	trace   *remote.Trace
	err     *remote.Error
}

func (j *jumps) close() {
	j.end()
	j.busy.Wait()
	j.open.each(func(jump *jump) {
		if jump.client != nil {
			jump.client.Close()
		}
	})
}

// jump returns the connection to a jump host. The first call makes the connection.
func (c *Carrier) jump(h hop, crossed []hop) *jump {
	return c.jumps.open.get(h, func(h hop) *jump {
		j := &jump{done: make(chan struct{})}
		c.jumps.busy.Go(func() { c.dialJump(j, h, crossed) })
		return j
	})
}

func (c *Carrier) dialJump(j *jump, h hop, crossed []hop) {
	defer close(j.done)
	// The nodes behind the jump host need time to report its failure.
	ctx, cancel := context.WithTimeout(c.jumps.life, c.options.Timeout*4/5)
	defer cancel()
	j.client, j.trace, j.err = c.dialHop(ctx, h, crossed)
	if j.err == nil {
		j.tunnels = ssh.NewClient(j.client.Conn, j.client.channels, j.client.requests)
	}
}

// connectVia opens a channel through the target's jump host.
func (a *attempt) connectVia(ctx context.Context, crossed []hop) (net.Conn, *remote.Error) {
	h := *a.target.jump
	failed := func(stage remote.Stage, cause remote.Cause, err error) *remote.Error {
		return &remote.Error{Stage: stage, Cause: remote.JumpFailed, Err: fmt.Errorf("jump host %s: %w", h.name, err),
			Detail: map[string]string{"jump": h.name, "cause": string(cause)}}
	}
	if slices.Contains(crossed, h) {
		return nil, failed(remote.StageConnect, remote.Unexpected, errors.New("jumphost loop: the jump host is configured to be reached through itself. Set `ProxyJump none` for it"))
	}
	j := a.client.jump(h, append(slices.Clone(crossed), h))
	select {
	case <-j.done:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return nil, &remote.Error{Stage: remote.StageConnect, Cause: remote.Interrupted, Err: context.Cause(ctx)}
		}
		return nil, failed(remote.StageConnect, remote.TimedOut, fmt.Errorf("no login there within %s", a.after()))
	}
	a.trace.Via = append(a.trace.Via, append(j.trace.Via, h.name)...)
	for _, note := range j.trace.OpenSSH {
		a.trace.OpenSSH = append(a.trace.OpenSSH, fmt.Sprintf("jump host %s: %s", h.name, note))
	}
	if j.err != nil {
		failure := failed(j.err.Stage, j.err.Cause, j.err)
		for key, value := range j.err.Detail {
			failure.Detail["jump_"+key] = value
		}
		return nil, failure
	}
	a.connection = j.client.through(h.name)
	return a.tunnel(ctx, j.tunnels, h.name)
}

// tunnel asks the jump host to connect to the target. We limit the wait ourselves, because the
// library waits until the jump connection ends.
func (a *attempt) tunnel(ctx context.Context, jump *ssh.Client, name string) (net.Conn, *remote.Error) {
	type result struct {
		conn net.Conn
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		conn, err := jump.Dial("tcp", a.target.address())
		opened <- result{conn, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, a.explainTunnel(r.err, name)
		}
		return detached(r.conn), nil
	case <-ctx.Done():
		go func() { // closes a connection that comes too late; jumps.close ends the wait
			if r := <-opened; r.conn != nil {
				r.conn.Close()
			}
		}()
		cause := remote.TimedOut
		if errors.Is(context.Cause(ctx), context.Canceled) {
			cause = remote.Interrupted
		}
		return nil, &remote.Error{Stage: remote.StageConnect, Cause: cause, Detail: map[string]string{"jump": name, "port": fmt.Sprint(a.target.port), "after": a.after()},
			Err: fmt.Errorf("no connection from jump host %s within %s", name, a.after())}
	}
}

// explainTunnel returns the reason why a jump host could not connect. sshd passes on the text of
// strerror and gai_strerror (channels.c, channel_connect_ctx).
func (a *attempt) explainTunnel(err error, name string) *remote.Error {
	e := &remote.Error{Stage: remote.StageConnect, Cause: remote.JumpFailed, Detail: map[string]string{"jump": name, "port": fmt.Sprint(a.target.port)},
		Err: fmt.Errorf("from jump host %s: %w", name, err)}
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) || refused.Reason != ssh.ConnectionFailed {
		e.Detail["cause"] = string(remote.ConnectionLost)
		if refused != nil {
			e.Detail["cause"] = string(remote.SessionRefused) // because of AllowTcpForwarding or PermitOpen
		}
		return e
	}
	for _, known := range []struct {
		words string
		cause remote.Cause
		stage remote.Stage
	}{
		{"Connection refused", remote.Refused, remote.StageConnect},
		{"No route to host", remote.NoRoute, remote.StageConnect},
		{"Network is unreachable", remote.NoRoute, remote.StageConnect},
		{"Connection timed out", remote.TimedOut, remote.StageConnect},
		{"Name or service not known", remote.NameUnknown, remote.StageResolve},
		{"name resolution", remote.NameUnknown, remote.StageResolve},
		{"No address associated", remote.NameUnknown, remote.StageResolve},
	} {
		if strings.Contains(refused.Message, known.words) {
			e.Cause, e.Stage = known.cause, known.stage
			e.Detail["resolver"] = refused.Message
			e.Detail["name"] = a.target.host
			break
		}
	}
	return e
}

// detached puts a pipe in front of a tunnelled connection, so that closing our end ends our calls
// even if the jump host is frozen. Calls that are blocked behind the pipe end with the jump
// connection.
func detached(conn net.Conn) net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		io.Copy(conn, theirs)
		conn.Close()
	}()
	go func() {
		io.Copy(theirs, conn)
		theirs.Close()
	}()
	return ours
}

// proxyGrace is how long a ProxyCommand's descendants may keep its standard error open after the
// command has been killed.
const proxyGrace = time.Second

// proxyConn is a connection through a ProxyCommand. Closing it kills the command and everything
// that it started.
type proxyConn struct {
	net.Conn
	command *exec.Cmd
	stderr  remote.Tail
	ended   <-chan struct{}
}

// startProxy runs the command as ssh does (ssh_proxy_connect in OpenSSH's sshconnect.c): with the
// user's shell, and with the connection as its standard input and output. The command is from the
// user's own ssh configuration.
func startProxy(shell, command string) (*proxyConn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := net.FileConn(ours) // conn has a duplicate of ours
	ours.Close()
	if err != nil {
		return nil, err
	}
	p := &proxyConn{Conn: conn, command: exec.Command(shell, "-c", "exec "+command)}
	p.stderr.Full = func() { conn.Close() }
	p.command.Stdin, p.command.Stdout, p.command.Stderr = theirs, theirs, &p.stderr
	p.command.WaitDelay = proxyGrace
	if p.ended, err = hostsys.Start(p.command); err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

// socketPair returns two connected sockets that no child inherits. Not every system can mark
// sockets close-on-exec atomically, so no fork may happen in between.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(pair[0])
	syscall.CloseOnExec(pair[1])
	return os.NewFile(uintptr(pair[0]), "proxy"), os.NewFile(uintptr(pair[1]), "proxy"), nil
}

func (p *proxyConn) Close() error {
	err := p.Conn.Close()
	select {
	case <-p.ended:
	default:
		// The command was not waited for yet, so the group ID is still its own.
		hostsys.KillGroup(p.command)
		<-p.ended
	}
	return err
}

// failure returns how the command ended, after its connection broke.
func (p *proxyConn) failure(err error) error {
	p.Close()
	if text := p.stderr.Text(); text != "" {
		return fmt.Errorf("the ProxyCommand ended (%v): %s", p.command.ProcessState, text)
	}
	return fmt.Errorf("the ProxyCommand ended (%v) and printed nothing: %w", p.command.ProcessState, plainError(err))
}
