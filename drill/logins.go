// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
)

const (
	// loginConnect is ssh's time limit for connecting and exchanging keys.
	loginConnect = 3 * time.Second
	// loginsAtOnce is well below ten unauthenticated connections. With ten, an sshd starts to
	// refuse some (sshd_config, MaxStartups).
	loginsAtOnce = 4
)

// Logins lists the peers that a node must log in to.
type Logins struct {
	Peers    []string      `json:"peers"`    // names as in the hostfile
	Port     int           `json:"port"`     // 0 for ssh's own default
	Deadline time.Duration `json:"deadline"` // time limit for all logins together
}

// Run makes the node's own ssh log in to every peer, a few at the same time, without any prompt. It
// changes nothing on the node. If ssh would accept and store a host key, Run keeps it from storing
// the key.
func (l Logins) Run(ctx context.Context) facts.Logins {
	result := facts.Logins{Passed: []string{}}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		result.Error = "ssh is not installed"
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	options := l.options()
	settingsFor := func(peer string) sshSettings { return askSSH(ctx, ssh, append(options, "--", peer)...) }
	if len(l.Peers) > 1 {
		if first := settingsFor(l.Peers[0]); first.areShared("kexalgorithms", "stricthostkeychecking", "userknownhostsfile") {
			settingsFor = func(string) sshSettings { return first }
		}
	}
	tries := make([]try, len(l.Peers))
	places := make(chan struct{}, loginsAtOnce)
	var all sync.WaitGroup
	for i, peer := range l.Peers {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			// If ssh cannot tell its settings, the login will report why.
			settings := settingsFor(peer)
			tries[i] = logIn(ctx, ssh, slices.Concat(options, settings.unwritten(), settings.quickExchange(), []string{"--", peer, "true"}), peer)
		})
	}
	all.Wait()
	for i, peer := range l.Peers {
		switch {
		case !tries[i].isKnown:
			result.Untried = append(result.Untried, peer)
		case tries[i].failure != nil:
			result.Failed = append(result.Failed, *tries[i].failure)
		default:
			result.Passed = append(result.Passed, peer)
		}
	}
	return result
}

type try struct {
	isKnown bool         // false if preflight's time limit ended the login before its result was known
	failure *facts.Login // nil if the login succeeded
}

// logIn makes ssh log in once. If preflight ends ssh at the time limit, the result says nothing
// about the peer. It does say something if ssh printed an error before, or had enough time to give
// up by itself. On a busy machine a missing answer proves nothing either.
func logIn(ctx context.Context, ssh string, args []string, peer string) try {
	w := hostsys.BeginWait()
	_, complaint, err := inEnglish(ssh, args...).Run(ctx)
	took := w.Took()
	if err == nil {
		return try{isKnown: true}
	}
	failure := &facts.Login{Peer: peer, Seconds: took.Seconds()}
	if ctx.Err() == nil {
		failure.Cause, failure.Message = loginCause(complaint, err)
		return try{isKnown: failure.Cause != "timeout" || w.Busy() == 0, failure: failure}
	}
	line := lastLine(complaint)
	failure.Cause = cmp.Or(causeSaid(complaint), "timeout")
	failure.Message = cmp.Or(line, "no answer within "+text.Duration(failure.Seconds))
	return try{isKnown: line != "" || took >= loginConnect && w.Busy() == 0, failure: failure}
}

// inEnglish returns a program whose messages are in English, so that preflight can evaluate them.
func inEnglish(path string, args ...string) hostsys.Child {
	return hostsys.Child{Path: path, Args: args, Env: append(os.Environ(), "LC_ALL=C")}
}

// options returns options that keep ssh from prompting and from reusing or leaving a shared
// connection. They also keep it from forwarding what the user's configuration forwards, and from
// writing files.
func (l Logins) options() []string {
	options := []string{
		"-n", "-T", "-x", "-a",
		"-o", "BatchMode=yes", "-o", "NumberOfPasswordPrompts=0",
		"-o", fmt.Sprintf("ConnectTimeout=%.0f", loginConnect.Seconds()), "-o", "ConnectionAttempts=1",
		"-o", "ControlMaster=no", "-o", "ControlPath=none",
		"-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no",
		"-o", "UpdateHostKeys=no", "-o", "LogLevel=ERROR",
	}
	if l.Port != 0 {
		options = append(options, "-p", strconv.Itoa(l.Port))
	}
	return slices.Clip(options)
}

// loginCauses maps ssh's messages to causes. The first match counts. The messages are from OpenSSH
// (sshconnect.c, sshconnect2.c and packet.c) and from the C library's errors.
var loginCauses = []struct{ pattern, cause string }{
	{"could not resolve hostname", "name"},
	{"identification has changed", "host-key-changed"},
	{"has changed and you have requested strict checking", "host-key-changed"},
	{"host key verification failed", "host-key"},
	{"host key is known for", "host-key"},
	{"timed out", "timeout"},
	{"timeout, server", "timeout"},
	{"permission denied (", "denied"},
	{"too many authentication failures", "denied"},
	{"no supported authentication methods", "denied"},
	{"connection refused", "connect"},
	{"no route to host", "connect"},
	{"network is unreachable", "connect"},
	{"connection reset", "connect"},
	{"connection closed", "connect"},
	{"kex_exchange_identification", "connect"},
}

// sshFailed is ssh's exit code if the login itself failed. Any other code is the exit code of the
// peer's shell.
const sshFailed = 255

// loginCause returns why a login failed, and the line that ssh printed about it.
func loginCause(stderr string, err error) (cause, message string) {
	message = lastLine(stderr)
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		return "other", err.Error()
	case exit.ExitCode() != sshFailed:
		return "shell", cmp.Or(message, fmt.Sprintf("the login passed, then true ended with %s", exit.ProcessState))
	}
	if cause = causeSaid(stderr); cause != "" {
		return cause, message
	}
	return "other", cmp.Or(message, fmt.Sprintf("ssh ended with %s and printed nothing", exit.ProcessState))
}

// causeSaid returns the cause for ssh's messages, "" if the messages are unknown.
func causeSaid(stderr string) string {
	stderr = strings.ToLower(stderr)
	for _, known := range loginCauses {
		if strings.Contains(stderr, known.pattern) {
			return known.cause
		}
	}
	return ""
}

// lastLine returns the last informative line. For a key that is unknown or has changed, that is the
// second to last line.
func lastLine(stderr string) string {
	last, before := "", ""
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			before, last = last, line
		}
	}
	if last == "Host key verification failed." && strings.Contains(before, "ost key") {
		return before
	}
	return last
}
