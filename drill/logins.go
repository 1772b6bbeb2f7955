// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
)

const (
	// loginConnect is ssh's time limit to connect and exchange keys.
	loginConnect = 3 * time.Second
	// loginsAtOnce stays below ten unauthenticated connections, at which an sshd starts to refuse
	// some (sshd_config, MaxStartups).
	loginsAtOnce = 4
)

// Logins are the peers that a node must log in to.
type Logins struct {
	Peers    []string      `json:"peers"`    // as in the hostfile
	Port     int           `json:"port"`     // 0 for ssh's own default
	Deadline time.Duration `json:"deadline"` // for all logins together
}

// Run lets the node's own ssh log in to every peer, a few at the same time, without any prompt. It
// changes nothing on the node: a host key that ssh would accept and store is not stored.
func (l Logins) Run(ctx context.Context) facts.Logins {
	result := facts.Logins{Passed: []string{}}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		result.Error = "ssh is not installed"
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	tries := make([]try, len(l.Peers))
	places := make(chan struct{}, loginsAtOnce)
	var all sync.WaitGroup
	for i, peer := range l.Peers {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			tries[i] = l.logIn(ctx, ssh, peer)
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
	isKnown bool         // false if our time limit ended it before the result was known
	failure *facts.Login // nil if it passed
}

// logIn lets ssh log in once. If we end ssh, that says nothing about the peer, unless ssh
// complained before or had enough time to give up by itself. On a busy machine a missing answer
// says nothing either.
func (l Logins) logIn(ctx context.Context, ssh, peer string) try {
	args := append(l.options(ctx, ssh, peer), "--", peer, "true")
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

// inEnglish returns a program whose messages are evaluated.
func inEnglish(path string, args ...string) hostsys.Child {
	return hostsys.Child{Path: path, Args: args, Env: append(os.Environ(), "LC_ALL=C")}
}

// options keep ssh from prompting, from reusing or leaving a shared connection, from forwarding
// what the user's configuration forwards, and from writing files.
func (l Logins) options(ctx context.Context, ssh, peer string) []string {
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
	// ssh's settings for this peer. If this fails, the login will report why.
	settings, _, _ := inEnglish(ssh, append(append([]string{"-G"}, options...), "--", peer)...).Run(ctx)
	return append(options, unwritten(settings)...)
}

// unwritten returns options with which ssh checks a host key as its settings say, the output of
// `ssh -G`, but stores none: ssh writes to the first of the user's files.
func unwritten(settings string) []string {
	var files string
	var accepts bool
	for line := range strings.Lines(settings) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "userknownhostsfile":
			files = value
		case "stricthostkeychecking":
			accepts = value == "false" || value == "off" || value == "accept-new"
		}
	}
	if !accepts {
		return nil // without a terminal, ssh refuses unknown keys
	}
	return []string{"-o", "UserKnownHostsFile=" + os.DevNull + " " + files}
}

// loginCauses maps ssh's messages to causes (OpenSSH, sshconnect.c, sshconnect2.c, packet.c and the
// C library's errors); the first match counts.
var loginCauses = []struct{ pattern, cause string }{
	{"could not resolve hostname", "name"},
	{"host key verification failed", "host-key"},
	{"host key is known for", "host-key"},
	{"identification has changed", "host-key"},
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

// sshFailed is ssh's exit code if the login itself failed; any other code is the peer's shell's.
const sshFailed = 255

// loginCause returns why a login failed, and ssh's line about it.
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

// causeSaid returns the cause for ssh's messages, "" if unknown.
func causeSaid(stderr string) string {
	stderr = strings.ToLower(stderr)
	for _, known := range loginCauses {
		if strings.Contains(stderr, known.pattern) {
			return known.cause
		}
	}
	return ""
}

// lastLine returns the last informative line: for a key that is unknown or has changed, that is the
// one before the last.
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
