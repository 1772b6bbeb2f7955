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
	// loginConnect is what ssh gets to connect and agree on keys.
	loginConnect = 3 * time.Second
	// loginsAtOnce stays below the ten unauthenticated connections from which
	// on an sshd starts to refuse some (sshd_config, MaxStartups).
	loginsAtOnce = 4
)

// Logins are the peers a node is to log in to.
type Logins struct {
	Peers    []string      `json:"peers"`    // as the hostfile names them
	Port     int           `json:"port"`     // 0 for what ssh takes by itself
	Deadline time.Duration `json:"deadline"` // for all logins together
}

// Run has the node's own ssh log in to every peer, a few at once, without ever
// asking anybody. Nothing on the node changes: a host key that ssh would accept
// and write down is not written down.
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
		case !tries[i].over:
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
	over    bool         // false when our time ended before it could be known
	failure *facts.Login // nil when it passed
}

// logIn has ssh log in once. An ssh that we end says nothing about the peer,
// unless it complained before or had the time in which it gives up by itself. That
// it was not answered in time says nothing on a busy machine.
func (l Logins) logIn(ctx context.Context, ssh, peer string) try {
	args := append(l.options(ctx, ssh, peer), "--", peer, "true")
	w := hostsys.BeginWait()
	_, complaint, err := inEnglish(ssh, args...).Run(ctx)
	took := w.Took()
	if err == nil {
		return try{over: true}
	}
	failure := &facts.Login{Peer: peer, Seconds: took.Seconds()}
	if ctx.Err() == nil {
		failure.Cause, failure.Message = loginCause(complaint, err)
		return try{over: failure.Cause != "timeout" || w.Busy() == 0, failure: failure}
	}
	line := lastLine(complaint)
	failure.Cause = cmp.Or(causeSaid(complaint), "timeout")
	failure.Message = cmp.Or(line, "no answer within "+text.Duration(failure.Seconds))
	return try{over: line != "" || took >= loginConnect && w.Busy() == 0, failure: failure}
}

// inEnglish is a program whose words are looked at.
func inEnglish(path string, args ...string) hostsys.Child {
	return hostsys.Child{Path: path, Args: args, Env: append(os.Environ(), "LC_ALL=C")}
}

// options keep ssh from asking, from reusing or leaving a shared connection,
// from forwarding what the user's configuration forwards, and from writing.
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
	// What ssh makes of its configuration for this peer. One that fails here
	// will say why when it logs in.
	settings, _, _ := inEnglish(ssh, append(append([]string{"-G"}, options...), "--", peer)...).Run(ctx)
	return append(options, unwritten(settings)...)
}

// unwritten are the options under which ssh judges a host key as settings, the
// output of `ssh -G`, say, and writes none down: it writes to the first of the
// user's files.
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
		return nil // without a terminal, ssh refuses what it does not know
	}
	return []string{"-o", "UserKnownHostsFile=" + os.DevNull + " " + files}
}

// loginCauses are what ssh says (OpenSSH, sshconnect.c, sshconnect2.c, packet.c
// and the C library's errors), and what it means; the first that fits does.
var loginCauses = []struct{ says, cause string }{
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

// sshFailed is the exit code of ssh where the login itself failed; any other is
// that of the peer's shell.
const sshFailed = 255

// loginCause is why a login failed, and the line in which ssh says so.
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

// causeSaid is what the words of ssh mean, "" for none that are known.
func causeSaid(stderr string) string {
	stderr = strings.ToLower(stderr)
	for _, known := range loginCauses {
		if strings.Contains(stderr, known.says) {
			return known.cause
		}
	}
	return ""
}

// lastLine is the last line that says something new: of a key that is unknown or
// has changed, ssh says so in the line before the last.
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
