// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/internal/lazyregexp"
	"preflight/internal/text"
)

// ending holds everything that is known about a command that ended too early. The failure is
// determined from this value alone.
type ending struct {
	host string
	exit
	entrance
	runs         bool     // the server accepted our command
	spoke        bool     // our script ran
	acknowledged bool     // our script got our first line
	pushed       bool     // the binary was sent
	hello        bool     // the agent said hello
	failed       string   // exit status of a binary that did not start after it was delivered
	tried        []string // directories that the script could not use, and why
	none         bool     // the script has no directory left to try
	noise        []string
}

// fail returns a failure of this node at a stage.
func (e *ending) fail(stage Stage, cause Cause, detail map[string]string, err error) *Error {
	return &Error{Host: e.host, Stage: stage, Cause: cause, Detail: detail, Err: err}
}

// stage returns the stage that the command had reached.
func (e *ending) stage() Stage {
	switch {
	case e.hello:
		return StageTalk
	case !e.runs:
		return StageSession
	case e.passed && !e.acknowledged:
		return StageInside
	case !e.acknowledged:
		return StageShell
	case len(e.tried) > 0 && !e.pushed, e.none:
		return StageDeliver
	}
	return StageStart
}

// explain returns the failure that ended the command.
func (e *ending) explain() *Error {
	if excess, ok := errors.AsType[*tooMuch](e.read); ok {
		return e.fail(e.stage(), TooMuch, map[string]string{"limit": excess.limit}, excess)
	}
	if signal := e.Signal; signal != "" && e.spoke {
		return e.fail(e.stage(), AgentKilled, map[string]string{"signal": signal},
			fmt.Errorf("ended by SIG%s%s", signal, after(e.stderr)))
	}
	if errors.Is(e.read, io.ErrUnexpectedEOF) && e.Status <= 0 {
		return e.fail(e.stage(), Truncated, nil, errors.New("the stream ended in the middle of a line"))
	}
	if e.lost != nil {
		return e.fail(e.stage(), ConnectionLost, nil, fmt.Errorf("the connection ended: %w", e.lost))
	}
	switch {
	case (e.hello || e.acknowledged && !e.none) && containsAny(e.stderr, reserveWords):
		return e.fail(e.stage(), NoAddresses, map[string]string{"message": firstSentence(e.stderr)},
			fmt.Errorf("the agent could not reserve memory: %s", firstSentence(e.stderr)))
	case e.hello && len(e.noise) > 0 && e.Status <= 0:
		return e.nonsense(e.noise[0])
	case e.hello:
		return e.exited()
	case e.passed && !e.acknowledged:
		return e.explainEntrance()
	case !e.acknowledged:
		return e.explainShell()
	case e.none:
		return e.explainDirectories()
	}
	return e.explainStart()
}

// explainShell returns the failure of a command that never reached our script, or whose script got
// no input.
func (e *ending) explainShell() *Error {
	messages, signal := e.output(), ""
	if e.Signal != "" {
		signal = ": SIG" + e.Signal
	}
	fail := func(c Cause, text string) *Error {
		return e.fail(StageShell, c, map[string]string{"output": messages}, errors.New(text))
	}
	lower := strings.ToLower(messages)
	switch {
	case containsAny(lower, ptyWords):
		return fail(NeedsPTY, "the login needs a terminal: "+messages)
	case containsAny(lower, restrictedWords):
		return fail(RestrictedShell, "the login shell is restricted: "+messages)
	case containsAny(lower, noShellWords), len(e.noise) == 0 && lostShell.MatchString(e.stderr):
		return fail(NoShell, "the account has no shell that runs commands: "+messages)
	case e.spoke:
		return fail(ShellBroken, "the login consumes the input of preflight's command"+after(messages))
	case containsAny(lower, startupWords):
		return fail(ShellBroken, "a startup file ends the login: "+messages)
	case messages == "" && e.Status == 0:
		return fail(ShellBroken, "the login ends with status 0 before it runs a command: a startup file calls exit, or a forced command prints nothing")
	case messages == "" && e.Status > 0:
		silent := fail(NoShell, fmt.Sprintf("the login ends with status %d and prints nothing: the shell is /bin/false or similar, or a startup file calls exit", e.Status))
		silent.Detail["status"] = strconv.Itoa(e.Status)
		return silent
	case messages == "":
		return fail(ShellBroken, "the session ends without an exit status before it runs a command"+signal)
	case notText.MatchString(messages):
		return e.nonsense(messages)
	}
	return fail(ForcedCommand, "the login runs another program instead of preflight's command: "+messages)
}

// explainDirectories returns the failure of a node that has no directory for the agent.
func (e *ending) explainDirectories() *Error {
	all := ownFile.ReplaceAllString(strings.Join(e.tried, "; "), "preflight-try")
	cause, text := NoDirectory, "no private directory for the agent: "
	switch {
	case noProgram.MatchString(all):
		cause, text = NoPrograms, "PATH has no mkdir, ls or similar programs: "
	// The first three say that only the agent cannot use a directory to which a launch can write.
	case containsAny(all, othersMarks):
		cause, text = Squatted, "other users own or may change the directories for the agent: "
	case strings.Contains(all, noexecMark):
		cause, text = NoExec, "no directory from which programs may run: "
	case containsAny(all, sizeWords):
		cause, text = FileLimit, "the agent is larger than a file may be: "
	case containsAny(all, fullWords):
		cause, text = DiskFull, "no space for the agent: "
	}
	return e.fail(StageDeliver, cause, map[string]string{"tried": all}, errors.New(text+all))
}

// explainStart returns the failure of an agent that is on the node but does not start.
func (e *ending) explainStart() *Error {
	status := e.Status
	if failed, err := strconv.Atoi(e.failed); err == nil {
		status = failed
	}
	fail := func(c Cause, key, text string) *Error {
		return e.fail(StageStart, c, map[string]string{key: e.stderr}, errors.New(text+after(e.stderr)))
	}
	switch {
	case containsAny(e.stderr, libcWords):
		return fail(LibcTooOld, "message", "the agent needs a newer glibc than the node has")
	case containsAny(e.stderr, formatWords), status == 2 && strings.Contains(e.stderr, "yntax error"):
		// dash treats a program for another architecture as a script.
		f := fail(WrongArch, "message", "the agent there is for another architecture (do machines of several architectures share the home? build for all of them with `make cross`)")
		f.Detail = map[string]string{"arch": "", "want": ""}
		return f
	case status == 127, strings.Contains(e.stderr, "required file not found"):
		return e.fail(StageStart, LibcTooOld, map[string]string{"message": "glibc's loader is missing" + after(e.stderr)},
			errors.New("the node has no glibc, which the agent needs: its loader is missing"+after(e.stderr)))
	case status == 126:
		return fail(NoExec, "tried", "the node does not allow the agent to run")
	case e.failed != "" && status > 128:
		return e.fail(StageStart, AgentKilled, map[string]string{"signal": strconv.Itoa(status - 128)},
			fmt.Errorf("the agent was ended by signal %d as soon as it started%s", status-128, after(e.stderr)))
	}
	return e.exited()
}

// exited returns the failure of an agent that ended by itself.
func (e *ending) exited() *Error {
	status, how := "", "without an exit status"
	if code := e.Status; code >= 0 {
		status = strconv.Itoa(code)
		how = "with status " + status
	}
	return e.fail(e.stage(), AgentExited, map[string]string{"status": status, "stderr": e.stderr},
		fmt.Errorf("the agent ended %s%s", how, after(e.stderr)))
}

// overdue returns the failure of a dialogue that the time limit, the user or the path watch ended.
// It returns nil if the dialogue ended by itself. If the output contains tag, the login echoes its
// input.
func (e *ending) overdue(ctx context.Context, dog *watchdog, tag string, began time.Time) *Error {
	if hole := dog.client.Broken(); hole != nil {
		hole.Host, hole.Stage = e.host, e.stage()
		return hole
	}
	if late, alive := dog.verdict(); late && !errors.Is(ctx.Err(), context.Canceled) {
		echoed := tag != "" && strings.Contains(strings.Join(e.noise, "\n"), tag)
		failure := e.stuck(alive, echoed, text.Duration(time.Since(began).Seconds()))
		if !alive {
			dog.lookout.Tell(failure)
		}
		return failure
	}
	return e.interrupted(ctx, "answer", text.Duration(time.Since(began).Seconds()))
}

// stuck returns the failure of a command that was still running when the time was up. echoed means
// that the command printed what we sent.
func (e *ending) stuck(alive, echoed bool, waited string) *Error {
	messages := e.output()
	switch {
	case alive && echoed && !e.spoke:
		return e.fail(StageShell, ForcedCommand, map[string]string{"output": messages},
			errors.New("the login runs another program instead of preflight's command, which repeats its input"))
	case alive && !e.runs:
		return e.fail(StageSession, Frozen, map[string]string{"after": waited},
			fmt.Errorf("the server answers, but opened no session within %s", waited))
	case e.passed && !e.acknowledged:
		return e.fail(StageInside, Frozen, map[string]string{"after": waited},
			fmt.Errorf("%s started no shell within %s%s", text.Escape(e.words[0]), waited, after(messages)))
	case alive && !e.acknowledged:
		cause := ShellHangs
		if e.spoke { // our script has started, and gets no input
			cause = ShellBroken
		}
		return e.fail(StageShell, cause, map[string]string{"output": messages},
			fmt.Errorf("the login did not run preflight's command within %s: a startup file waits or reads the input, or a directory of the home, of PATH or of LD_LIBRARY_PATH hangs%s", waited, after(messages)))
	case alive:
		return e.fail(e.stage(), Frozen, map[string]string{"after": waited},
			fmt.Errorf("the server answers, but the agent did not within %s (does a file system hang?)%s", waited, after(messages)))
	}
	return e.fail(e.stage(), Frozen, map[string]string{"after": waited},
		fmt.Errorf("nothing came for the rest of the %s, not even from the server", waited))
}

// output returns everything that was printed except preflight's own lines.
func (e *ending) output() string {
	words := e.noise
	if e.stderr != "" {
		words = append(words[:len(words):len(words)], e.stderr)
	}
	return strings.Join(words, "; ")
}

// after returns another program's message in a form that can be appended to ours, "" for none.
func after(words string) string {
	if words == "" {
		return ""
	}
	return ": " + words
}

// Messages of other programs: shadow's nologin, sudo, sshd, git hosts, bash and dash, the loaders
// of GNU and musl, coreutils and busybox.
var (
	ptyWords = []string{
		"pty allocation", "pty required", "requires a pty", "pseudo-terminal", "must have a tty",
		"input device is not a tty", "no tty present", "terminal is required", "requires a terminal", "requires a tty",
	}
	noShellWords = []string{
		"account is currently not available", "account is not available", "does not provide shell access",
		"shell access is disabled", "no shell access", "/bin/sh: not found",
		"/bin/sh: no such file", "nologin",
	}
	restrictedWords = []string{"exec: restricted", "restricted: cannot"}
	startupWords    = []string{
		"bashrc", ".bash_profile", ".profile", "/etc/profile", "zshenv", "zshrc", ".cshrc", ".tcshrc", ".login",
		"config.fish", "kshrc", ".bash_env",
	}
	// Go and the loader reserve addresses before they use memory, so only a limit on addresses
	// (RLIMIT_AS) makes them fail (Go 1.26, runtime/mpagealloc.go and malloc.go; glibc 2.36,
	// elf/dl-load.c).
	reserveWords = []string{"failed to reserve page summary memory", "cannot reserve arena virtual address space", "failed to map segment from shared object", "cannot map zero-fill pages", "cannot map pages in arena address space", "runtime: out of memory", "runtime: cannot allocate memory"}
	fullWords    = []string{"No space left", "quota exceeded"}
	sizeWords    = []string{"File too large", "File size limit"} // of RLIMIT_FSIZE
	libcWords    = []string{"GLIBC_", "error while loading shared libraries", "Error relocating", "Error loading shared library", "kernel too old"}
	formatWords  = []string{"Exec format error", "cannot execute binary file", "ELF: not found"}
)

// firstSentence returns the first of the lines that Tail.Text joins. A stack of Go may follow it.
func firstSentence(messages string) string {
	first, _, _ := strings.Cut(messages, "; ")
	return first
}

// lostShell matches sshd's perror message for a login shell that cannot be executed.
var lostShell = lazyregexp.New(`^/[^ ;]+: (No such file or directory|Permission denied)$`)

// notText matches escaped bytes that occur in no text.
var notText = lazyregexp.New(`\\x(00|[89a-f][0-9a-f])`)

// noProgram matches the message of dash, bash and busybox's ash if one of the first programs that
// deliver.sh uses in a directory is missing.
var noProgram = lazyregexp.New(`\b(mkdir|ls|cat): (command )?not found`)

// ownFile matches the name of a file of deliver.sh. Such a name would keep equal failures of several
// nodes apart.
var ownFile = lazyregexp.New(`\bpreflight-(try|[0-9a-f]{64})\.[0-9a-f]+`)

// noexecMark is deliver.sh's mark for a directory from which no program can run.
const noexecMark = "(noexec)"

// othersMarks lists deliver.sh's marks for a directory that belongs to other users, or that they may
// change.
var othersMarks = []string{"(taken: ", "(mode is not 0700)", "(others may write to its parent)"}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// interrupted returns the failure of waiting for something under ctx after ctx has ended. It
// returns nil while ctx is alive. waited says how long the wait was.
func (e *ending) interrupted(ctx context.Context, what, waited string) *Error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return e.fail(e.stage(), Frozen, map[string]string{"after": waited}, fmt.Errorf("no %s within %s", what, waited))
	default:
		return e.fail(e.stage(), Interrupted, nil, context.Cause(ctx))
	}
}

// garbage returns the failure for a line that has our marker but cannot be parsed.
func (e *ending) garbage(line []byte) *Error {
	return e.nonsense(text.Escape(string(line[:min(len(line), noiseWidth)])))
}

// nonsense returns the failure for escaped text that came instead of an answer.
func (e *ending) nonsense(text string) *Error {
	return e.fail(e.stage(), Garbage, map[string]string{"text": text}, fmt.Errorf("its output is not the agent's: %s", text))
}
