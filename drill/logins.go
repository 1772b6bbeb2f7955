package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/facts"
)

const (
	// loginsTime is for all logins of a node where Logins has no deadline.
	loginsTime = 8 * time.Second
	// loginConnect is what ssh gets to connect and agree on keys.
	loginConnect = 3 * time.Second
	// loginsAtOnce stays below the ten unauthenticated connections from which
	// on an sshd starts to refuse some (sshd_config, MaxStartups).
	loginsAtOnce = 4
	// loginGrace is how long the pipes of a killed ssh may stay open.
	loginGrace = 200 * time.Millisecond
)

// Logins are the peers a node is to log in to.
type Logins struct {
	Peers    []string      `json:"peers"`    // as the hostfile names them
	Port     int           `json:"port"`     // 0 for what ssh takes by itself
	Deadline time.Duration `json:"deadline"` // for all logins together, 0 for 8 s
}

// Run has the node's own ssh log in to every peer, a few at once, without ever
// asking anybody. Nothing on the node changes: a host key that ssh would accept
// and write down is not written down.
func (l Logins) Run(ctx context.Context) facts.Logins {
	told := facts.Logins{Passed: []string{}}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		told.Error = "ssh is not installed"
		return told
	}
	if l.Deadline <= 0 {
		l.Deadline = loginsTime
	}
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	failures := make([]*facts.Login, len(l.Peers))
	places := make(chan struct{}, loginsAtOnce)
	var all sync.WaitGroup
	for i, peer := range l.Peers {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			failures[i] = l.logIn(ctx, ssh, peer)
		})
	}
	all.Wait()
	for i, failure := range failures {
		if failure == nil {
			told.Passed = append(told.Passed, l.Peers[i])
		} else {
			told.Failed = append(told.Failed, *failure)
		}
	}
	return told
}

// logIn is nil when the login passes.
func (l Logins) logIn(ctx context.Context, ssh, peer string) *facts.Login {
	began := time.Now()
	if ctx.Err() != nil {
		return &facts.Login{Peer: peer, Cause: "timeout", Message: "there was no time left to try it"}
	}
	args := append(l.options(ctx, ssh, peer), "--", peer, "true")
	_, complaint, err := runSSH(ctx, ssh, args)
	if err == nil {
		return nil
	}
	failure := &facts.Login{Peer: peer, Seconds: time.Since(began).Seconds()}
	failure.Cause, failure.Message = loginCause(complaint, err)
	if ctx.Err() != nil {
		failure.Cause, failure.Message = "timeout", fmt.Sprintf("no answer within %.1f s", failure.Seconds)
	}
	return failure
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
	settings, _, _ := runSSH(ctx, ssh, append(append([]string{"-G"}, options...), "--", peer))
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

// runSSH runs ssh without a terminal and without input, in a process group that
// ends with ctx.
func runSSH(ctx context.Context, ssh string, args []string) (stdout, stderr string, err error) {
	defer holdThread()()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, ssh, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &capped{kept: &out}, &capped{kept: &errs}
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = loginGrace
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// maxComplaint bounds what is kept of what ssh and the peer's shell print.
const maxComplaint = 64 << 10

// capped keeps the first maxComplaint bytes and swallows the rest.
type capped struct{ kept *strings.Builder }

func (c *capped) Write(p []byte) (int, error) {
	c.kept.Write(p[:min(len(p), maxComplaint-c.kept.Len())])
	return len(p), nil
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
		if message == "" {
			message = fmt.Sprintf("the login passed, then true ended with %s", exit.ProcessState)
		}
		return "shell", message
	}
	for _, known := range loginCauses {
		if strings.Contains(strings.ToLower(stderr), known.says) {
			return known.cause, message
		}
	}
	if message == "" {
		message = fmt.Sprintf("ssh ended with %s and said nothing", exit.ProcessState)
	}
	return "other", message
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
