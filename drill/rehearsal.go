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

// Rehearsal is a run of pdsh as DeepSpeed will start it.
type Rehearsal struct {
	Program      string          // pdsh, by path or by PATH
	Hosts        []string        // in node rank order, as the hostfile spells them
	LauncherArgs []string        // --launcher_args, split into words
	Env          []facts.Setting // what DeepSpeed adds to its own environment for pdsh
	Limit        time.Duration
}

// Rehearse runs pdsh over all hosts on the machine it is called on, with an echo
// in place of the training, and sorts what came back by node. It ends with its
// limit or with ctx, and every ssh that pdsh started ends with it.
//
// Nobody is ever asked for anything: pdsh gives its ssh no terminal, and ssh is
// kept from the windows it would open instead. What DeepSpeed would do with an
// answer is not what preflight can promise.
func Rehearse(ctx context.Context, r Rehearsal) facts.Rehearsal {
	token := "preflight-" + strings.ToLower(rand.Text()[:12])
	command := r.command(token)
	lines := newRehearsed(r.Hosts, token)
	began := time.Now() // before the limit begins: who reached it took no less
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = r.environment()
	out, errs := linesTo(lines.output), linesTo(lines.complaint)
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal that somebody could be asked at
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

// command is the argv of DeepSpeed's PDSHRunner.get_cmd with the echo as the
// remote command (deepspeed/launcher/multinode_runner.py, 0.19.8). pdsh writes a
// node's rank for %n.
func (r Rehearsal) command(token string) []string {
	argv := []string{r.Program, "-S", "-f", "1024", "-w", strings.Join(r.Hosts, ",")}
	return slices.Concat(argv, r.LauncherArgs, []string{"echo", token + "-%n"})
}

// environment is our own, what DeepSpeed adds, and what keeps ssh from asking by
// a window: OpenSSH before 8.4 does not know SSH_ASKPASS_REQUIRE, and opens none
// without a display.
func (r Rehearsal) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "DISPLAY=") || strings.HasPrefix(entry, "SSH_ASKPASS=")
	})
	for _, setting := range r.Env {
		env = append(env, setting.Name+"="+setting.Value)
	}
	return append(env, "SSH_ASKPASS_REQUIRE=never")
}

// unfinished is why pdsh did not run to its own end, "" when it did, whatever
// its exit code.
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

// endFamily ends a program and all it has started. pdsh gives every ssh a
// session of its own (src/common/pipecmd.c), so no signal to its group reaches
// them. It is stopped first, so that it starts no more of them meanwhile.
func endFamily(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return os.ErrProcessDone
	}
	for _, child := range descendants(pid) {
		if syscall.Kill(-child, syscall.SIGKILL) != nil { // it leads no group
			syscall.Kill(child, syscall.SIGKILL)
		}
	}
	return syscall.Kill(-pid, syscall.SIGKILL)
}

// descendants are the processes that one has started, and those that these have. Where there is no
// /proc none are known: an ssh of pdsh's then ends by itself, at the latest when it has waited for its peer.
func descendants(pid int) []int {
	children := map[int][]int{}
	processes, _ := procfs.AllProcs()
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil { // else it has ended
			children[stat.PPID] = append(children[stat.PPID], process.PID)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
