// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

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
