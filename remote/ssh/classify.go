// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/text"
	"preflight/remote"
)

// Only this file reads errors of x/crypto and the kernel. It turns them into a Stage and a Cause.
// Most of x/crypto's errors are only text.

// connectCause returns why a TCP connection failed.
func connectCause(ctx context.Context, err error) remote.Cause {
	var timeout net.Error
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return remote.Interrupted
	case errors.Is(err, syscall.ECONNREFUSED):
		return remote.Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.EHOSTDOWN), errors.Is(err, syscall.ENETDOWN):
		return remote.NoRoute
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return remote.TimedOut
	}
	return remote.Unexpected
}

// resolverWords returns the resolver's message without the name that was looked up.
func resolverWords(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.Server != "":
		return fmt.Sprintf("%s (%s)", dns.Err, dns.Server)
	case errors.As(err, &dns):
		return dns.Err
	case err == nil:
		return "no address"
	}
	return err.Error()
}

// explain translates the library's error, depending on how far the attempt got. late is the reason
// why our own side ended the attempt, nil if it did not.
func (a *attempt) explain(late, err error) *remote.Error {
	var negotiation *ssh.AlgorithmNegotiationError
	hole := a.connection.Broken()
	switch {
	case a.refused.Load() != nil:
		return a.refused.Load()
	case hole != nil:
		hole.Stage = a.stage()
		return hole
	case errors.Is(late, context.Canceled):
		return &remote.Error{Stage: a.stage(), Cause: remote.Interrupted, Err: late}
	case a.stage() == remote.StageGreet:
		return a.explainGreeting(late, err)
	case late != nil && a.stage() == remote.StageLogin && a.login.agentSilent():
		return a.login.explain(late)
	case late != nil:
		return &remote.Error{Stage: a.stage(), Cause: remote.Frozen, Err: a.silence("no answer"), Detail: map[string]string{"after": a.after()}}
	case errors.As(err, &negotiation):
		return a.explainNegotiation(negotiation)
	case a.stage() == remote.StageNegotiate && lost(err):
		return &remote.Error{Stage: remote.StageNegotiate, Cause: remote.ConnectionLost, Err: plainError(err)}
	case a.stage() == remote.StageNegotiate:
		return &remote.Error{Stage: remote.StageNegotiate, Cause: remote.Unexpected, Err: plainError(err)}
	}
	a.trace.OpenSSH = append(a.trace.OpenSSH, a.login.remaining()...)
	return a.login.explain(err)
}

// stage returns how far the attempt got.
func (a *attempt) stage() remote.Stage {
	switch {
	case !a.wire.greeted:
		return remote.StageGreet
	case !a.verified.Load():
		return remote.StageNegotiate
	}
	return remote.StageLogin
}

func (a *attempt) after() string { return text.Duration(time.Since(a.begun).Seconds()) }

func (a *attempt) silence(what string) error {
	return fmt.Errorf("%s within %s", what, a.after())
}

// turnedAway matches the lines with which sshd rejects a connection before its version line
// (drop_connection in OpenSSH's sshd.c, 8.5 and 9.8).
var turnedAway = regexp.MustCompile(`^(Exceeded MaxStartups|Not allowed at this time)`)

// explainGreeting returns the failure of a server that never sent a version line of SSH-2.0.
func (a *attempt) explainGreeting(late, err error) *remote.Error {
	greeting := string(a.wire.greeting)
	e := &remote.Error{Stage: remote.StageGreet, Detail: map[string]string{
		"address": a.trace.Address, "port": strconv.Itoa(a.target.port), "after": a.after(),
	}}
	if greeting != "" {
		e.Detail["greeting"] = text.Escape(greeting)
	}
	switch {
	case a.proxy != nil && late == nil:
		e.Cause, e.Stage, e.Err = remote.ProxyFailed, remote.StageConnect, a.proxy.failure(err)
		e.Detail["command"] = a.target.proxyCommand
	case turnedAway.MatchString(greeting):
		e.Cause, e.Err = remote.ClosedBeforeBanner, fmt.Errorf("the server rejected the connection: %s", e.Detail["greeting"])
	case greeting != "":
		e.Cause, e.Err = remote.NotSSH, fmt.Errorf("it answers with %s, which is not an SSH greeting", strconv.Quote(greeting))
	case late != nil:
		e.Cause, e.Err = remote.Silent, a.silence("connected, but the server sent no greeting")
	default:
		e.Cause, e.Err = remote.ClosedBeforeBanner, fmt.Errorf("the connection was closed before the server's greeting: %w", plainError(err))
	}
	return e
}

// explainNegotiation names the kind of algorithm on which the two sides could not agree. It adds a
// note if OpenSSH could have agreed.
func (a *attempt) explainNegotiation(err *ssh.AlgorithmNegotiationError) *remote.Error {
	for _, theirs := range err.RequestedAlgorithms {
		if slices.Contains(onlyOpenSSH, theirs) {
			a.trace.OpenSSH = append(a.trace.OpenSSH, fmt.Sprintf("ssh would agree on %s, which preflight does not support", theirs))
		}
	}
	return &remote.Error{Stage: remote.StageNegotiate, Cause: remote.NoCommonAlgorithm, Err: err, Detail: map[string]string{
		"kind":    err.What,
		"offered": strings.Join(err.RequestedAlgorithms, ","),
		"ours":    strings.Join(err.SupportedAlgorithms, ","),
	}}
}

// lost reports whether the other side or the network ended the connection.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || disconnected(err) != ""
}

// disconnected returns the text of the server's disconnect message, "" if the server sent none. The
// library does not export its type for this message.
func disconnected(err error) string {
	if err == nil {
		return ""
	}
	if match := disconnectText.FindStringSubmatch(err.Error()); match != nil {
		return match[1]
	}
	return ""
}

var disconnectText = regexp.MustCompile(`ssh: disconnect, reason \d+: ((?s:.*))$`)

// plainError returns an error without the library's own prefixes.
func plainError(err error) error {
	if line := disconnected(err); line != "" {
		return fmt.Errorf("the server said: %s", text.Escape(strings.TrimSpace(line)))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("closed by the other side")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	return err
}
