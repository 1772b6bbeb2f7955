// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// Rehearsal describes a run of pdsh in the way in which DeepSpeed will start it.
type Rehearsal struct {
	Program      string          // path of pdsh, or its name in PATH
	Hosts        []string        // in node rank order, as in the hostfile
	LauncherArgs []string        // the words of --launcher_args
	Env          []facts.Setting // variables that DeepSpeed adds to its own environment for pdsh
	Limit        time.Duration
}

// Rehearse runs pdsh over all hosts from this machine, with an echo in place of the training. It
// sorts the output by node. It ends at its time limit or with ctx, and ends every ssh that pdsh
// started.
//
// Rehearse never prompts. pdsh gives its ssh no terminal, and ssh is kept from opening a window.
// preflight cannot predict what DeepSpeed would do after an answer to a prompt.
func Rehearse(ctx context.Context, r Rehearsal) facts.Rehearsal {
	env := r.environment(ctx)
	token := "preflight-" + strings.ToLower(rand.Text()[:12])
	command := r.command(token)
	lines := newRehearsed(r.Hosts, token)
	began := time.Now() // taken before the limit starts, so that the measured time is never shorter than the limit
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = env
	out, errs := linesTo(lines.output), linesTo(lines.complaint)
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a session without a terminal, so that no program can prompt
	cmd.Cancel = func() error { return endFamily(cmd.Process.Pid) }

	err := hostsys.Run(cmd)
	seconds := time.Since(began).Seconds()
	out.Flush()
	errs.Flush()
	result := facts.Rehearsal{Command: command, ExitCode: -1, Seconds: seconds, Nodes: lines.inOrder(), Complaints: lines.complaints}
	if cmd.ProcessState != nil {
		result.ExitCode = cmd.ProcessState.ExitCode()
	}
	result.Problem = unfinished(ctx, err, min(seconds, r.Limit.Seconds()))
	return result
}

// command returns the arguments of DeepSpeed's PDSHRunner.get_cmd with the echo as the remote
// command (deepspeed/launcher/multinode_runner.py, 0.19.8). pdsh replaces %n with a node's rank.
func (r Rehearsal) command(token string) []string {
	argv := []string{r.Program, "-S", "-f", "1024", "-w", strings.Join(r.Hosts, ",")}
	return slices.Concat(argv, r.LauncherArgs, []string{"echo", token + "-%n"})
}

// environment returns this process's environment with the variables that DeepSpeed adds. It also
// keeps ssh from prompting in a window. OpenSSH before 8.4 does not know SSH_ASKPASS_REQUIRE, and
// opens no window if no display is set.
func (r Rehearsal) environment(ctx context.Context) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "DISPLAY=") || strings.HasPrefix(entry, "SSH_ASKPASS=")
	})
	for _, setting := range r.Env {
		env = append(env, setting.Name+"="+setting.Value)
	}
	return append(env, append(r.quickExchange(ctx, env), "SSH_ASKPASS_REQUIRE=never")...)
}

// quickExchange returns the variable with which pdsh's ssh exchanges keys more quickly, or nil. pdsh
// passes the same arguments to ssh for every host. The user's arguments stay, and decide which key
// exchanges ssh may use.
func (r Rehearsal) quickExchange(ctx context.Context, env []string) []string {
	const all, appended = "PDSH_SSH_ARGS=", "PDSH_SSH_ARGS_APPEND="
	var arguments string
	for _, entry := range env {
		if strings.HasPrefix(entry, all) {
			return nil // the user has replaced pdsh's own options
		}
		if value, is := strings.CutPrefix(entry, appended); is { // the last one counts
			arguments = value
		}
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil || strings.HasPrefix(r.Hosts[0], "-") { // ssh would read the name as an option
		return nil
	}
	settings := askSSH(ctx, ssh, append(strings.Fields(arguments), r.Hosts[0])...)
	options := settings.quickExchange()
	if options == nil || !settings.areShared("kexalgorithms") {
		return nil
	}
	return []string{appended + strings.TrimSpace(strings.Join(options, " ")+" "+arguments)}
}

// unfinished returns why pdsh did not finish. It returns "" if pdsh finished, with any exit code.
func unfinished(ctx context.Context, err error, seconds float64) string {
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("killed because it had not finished after %s", text.Duration(seconds))
	case ctx.Err() != nil:
		return "interrupted"
	case err == nil, errors.As(err, &exit) && exit.Exited():
		return ""
	case errors.As(err, &exit):
		return fmt.Sprintf("ended by %s", exit.ProcessState)
	}
	return err.Error()
}

// endFamily ends a program and all processes that it has started. pdsh gives every ssh a separate
// session (src/common/pipecmd.c), so no signal to pdsh's group reaches them. endFamily first stops
// the program, so that it starts no more processes.
func endFamily(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return os.ErrProcessDone
	}
	for _, child := range descendants(pid) {
		if syscall.Kill(-child, syscall.SIGKILL) != nil { // the process leads no group
			syscall.Kill(child, syscall.SIGKILL)
		}
	}
	return syscall.Kill(-pid, syscall.SIGKILL)
}

// descendants returns the processes that a process has started, directly or indirectly. Without
// /proc it returns none. In that case the ssh processes of pdsh end by themselves, at the latest
// when their wait for the peer ends.
func descendants(pid int) []int {
	children := map[int][]int{}
	processes, _ := procfs.AllProcs()
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil { // if this fails, the process has ended
			children[stat.PPID] = append(children[stat.PPID], process.PID)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
