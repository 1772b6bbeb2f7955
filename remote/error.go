// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"slices"

	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// Stage is the step on the way to a talking agent at which something failed.
type Stage string

const (
	StageResolve   Stage = "resolve"   // name → address
	StageConnect   Stage = "connect"   // TCP
	StageGreet     Stage = "greet"     // the server's version line
	StageNegotiate Stage = "negotiate" // key exchange
	StageHostKey   Stage = "host-key"
	StageLogin     Stage = "login"
	StageSession   Stage = "session" // channel and exec
	StageShell     Stage = "shell"   // the login shell runs our command
	StageInside    Stage = "inside"  // what the ranks run in is entered
	StageDeliver   Stage = "deliver" // the binary gets there
	StageStart     Stage = "start"   // the binary starts
	StageTalk      Stage = "talk"    // the agent answers
)

// Cause is a failure in one word. Every cause has a cure in the catalogue of
// checks; a test of the root package holds the two lists together.
type Cause string

const (
	NameUnknown Cause = "name-unknown" // does not resolve; Detail resolver
	Refused     Cause = "refused"      // RST
	TimedOut    Cause = "timed-out"    // no answer to SYN
	NoRoute     Cause = "no-route"     // EHOSTUNREACH, ENETUNREACH
	JumpFailed  Cause = "jump-failed"  // a ProxyJump host failed; Detail jump, cause
	ProxyFailed Cause = "proxy-failed" // a ProxyCommand failed; Detail command

	NotSSH             Cause = "not-ssh"              // answers, but not with SSH-2.0; Detail greeting
	ClosedBeforeBanner Cause = "closed-before-banner" // MaxStartups, TCP wrappers, sshd starting
	Silent             Cause = "silent"               // connected, never greets
	NoCommonAlgorithm  Cause = "no-common-algorithm"  // Detail kind, offered

	HostKeyUnknown   Cause = "host-key-unknown"         // Detail file, fingerprint, type
	HostsUnreadable  Cause = "known-hosts-unreadable"   // Detail file, reason
	HostKeyChanged   Cause = "host-key-changed"         // Detail file, line, fingerprint, type
	HostKeyRevoked   Cause = "host-key-revoked"         // Detail file, line
	HostKeyOtherType Cause = "host-key-other-algorithm" // Detail known, type

	NoKey            Cause = "no-key"            // nothing to offer; Detail looked
	KeysRefused      Cause = "keys-refused"      // Detail offered, user
	KeyLocked        Cause = "key-locked"        // passphrase and no agent; Detail file
	KeyPermissions   Cause = "key-permissions"   // others may read it, so OpenSSH ignores it; Detail file, mode
	KeyUnreadable    Cause = "key-unreadable"    // we may not; Detail file, reason
	KeyBroken        Cause = "key-broken"        // the file holds no private key; Detail file, reason
	AgentUnreachable Cause = "agent-unreachable" // Detail socket
	PasswordOnly     Cause = "password-only"     // server accepts only what needs a person; Detail methods
	AccountClosed    Cause = "account-closed"    // expired or locked, by the server's own words; Detail banner

	NoJob Cause = "no-job" // Slurm lets in only who has a job there; Detail banner

	SessionRefused Cause = "session-refused" // MaxSessions 0, exec disabled
	NoShell        Cause = "no-shell"        // nologin, /bin/false, a shell that is not there; Detail output, and status where nothing was said, which a startup file may have ended with
	ForcedCommand  Cause = "forced-command"  // something else ran; Detail output
	NeedsPTY       Cause = "needs-pty"
	ShellBroken    Cause = "shell-broken" // startup files end or swallow the session; Detail output

	NotInJob       Cause = "not-in-job"      // Slurm's job has not this node
	StepFailed     Cause = "step-failed"     // Slurm starts nothing there, or took the step away
	RootRefused    Cause = "root-refused"    // Open MPI starts nothing for root
	DaemonMissing  Cause = "daemon-missing"  // mpirun's own program is not there, or not in ssh's PATH
	DaemonOther    Cause = "daemon-mismatch" // it is of another release
	NoCallBack     Cause = "no-callback"     // it does not reach the launching machine
	MPIRunFailed   Cause = "mpirun-failed"   // in mpirun's own words
	NoOverlap      Cause = "no-overlap"      // srun is older than the option
	NoPyxis        Cause = "no-pyxis"        // srun has not its options
	PyxisFailed    Cause = "pyxis-failed"    // its container does not begin
	JobOver        Cause = "job-over"        // Slurm's job has ended
	SlurmSilent    Cause = "slurm-silent"    // its controller
	SlurmDistrusts Cause = "slurm-distrusts" // credentials: munge, or clocks that differ

	// On the way into what the ranks run in: Detail program, output.
	NoEngine         Cause = "no-engine"         // the node has no such program
	EngineDenied     Cause = "engine-denied"     // this account may not
	EngineDown       Cause = "engine-down"       // the program's daemon does not run
	NoContainer      Cause = "no-container"      // nor image, nor process
	ContainerStopped Cause = "container-stopped" // or paused
	NoShellInside    Cause = "no-shell-inside"   // an image without /bin/sh
	OtherArch        Cause = "other-arch"        // an image for another machine
	NoInput          Cause = "no-input"          // what we say does not get there: -i is missing
	GivenTerminal    Cause = "given-terminal"    // -t is too much
	NotEntered       Cause = "not-entered"       // none of the above
	// In a Kubernetes cluster, by what it says of itself; Detail namespace, container, reason.
	NoCluster      Cause = "no-cluster"       // no API server answers, or none that is trusted
	NotLoggedIn    Cause = "not-logged-in"    // it does not know who asks
	Forbidden      Cause = "forbidden"        // it does, and does not allow it
	NoPod          Cause = "no-pod"           // nor namespace
	PodPending     Cause = "pod-pending"      // it does not run yet
	PodUnready     Cause = "pod-unready"      // it runs, and the container does not
	PodEnded       Cause = "pod-ended"        // evicted, failed, done, or about to be
	NoPodContainer Cause = "no-pod-container" // of that name
	KubeletDown    Cause = "kubelet-down"     // the API server does not reach the pod's machine

	// Of a node that is to call us.
	NotCome    Cause = "not-come"    // it has not
	WrongToken Cause = "wrong-token" // it has, and does not know what it should
	NameTwice  Cause = "name-twice"  // more than one does by this name
	OtherWire  Cause = "other-wire"  // it speaks otherwise

	NoDirectory    Cause = "no-directory" // every private directory refused; Detail tried
	NoPrograms     Cause = "no-programs"  // PATH leads to no mkdir, ls …; Detail tried
	DiskFull       Cause = "disk-full"    // Detail tried
	NoExec         Cause = "noexec"       // Detail tried
	Squatted       Cause = "squatted"     // others have made directories of our names; Detail tried
	NoUnpacker     Cause = "no-unpacker"  // no gzip there
	WrongArch      Cause = "wrong-arch"   // Detail arch, want
	WrongOS        Cause = "wrong-os"     // Detail os
	LibcTooOld     Cause = "libc-too-old" // Detail message
	AgentKilled    Cause = "agent-killed" // a signal ended it; Detail signal
	AgentExited    Cause = "agent-exited" // it ended by itself; Detail status, stderr
	Frozen         Cause = "frozen"       // connected, then nothing until the deadline; Detail after, seen, unreached, jump
	BlackHole      Cause = "black-hole"   // small packets pass, full ones vanish; Detail direction, mtu, size
	Garbage        Cause = "garbage"      // Detail text
	TooMuch        Cause = "too-much"     // Detail limit
	Truncated      Cause = "truncated"    // the stream ended in the middle of an answer
	ConnectionLost Cause = "connection-lost"
	HeadLimit      Cause = "head-limit"  // this machine, not the node, has too little of something; Detail files
	HeadStood      Cause = "head-stood"  // this machine stood still, so that nothing is known of the node
	HeadBusy       Cause = "head-busy"   // this machine was so busy that nothing is known of the node
	Interrupted    Cause = "interrupted" // by our own user
	Unexpected     Cause = "unexpected"  // none of the above; Message has it all
)

// Error is one node that could not be reached, or was lost.
type Error struct {
	Host   string // as the hostfile names it
	Stage  Stage
	Cause  Cause
	Detail map[string]string // what a cure needs, by the names given at each Cause
	Err    error             // in the words of the side that reported it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s: %v", e.Host, e.Stage, e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// isTimed reports whether all that happened is that nothing came in time.
func (e *Error) isTimed() bool {
	cause := e.Cause
	if cause == JumpFailed {
		cause = Cause(e.Detail["cause"])
	}
	return slices.Contains([]Cause{TimedOut, Silent, Frozen, NotCome}, cause)
}

// Excuse returns a failure that blames this machine instead of the node, if all that happened is that nothing came in
// time and this machine was busy during the wait. It returns any other error as it is.
func Excuse(err error, w hostsys.Wait) error {
	if failure, is := errors.AsType[*Error](err); is && failure.isTimed() {
		return failure.excused(w)
	}
	return err
}

// excused returns a failure that blames this machine instead of the node, if this machine was busy while it waited in
// vain.
func (e *Error) excused(w hostsys.Wait) *Error {
	late := w.Busy()
	if late == 0 {
		return e
	}
	err := fmt.Errorf("it was held up for %s of %s (%w)", text.Duration(late.Seconds()), text.Duration(w.Took().Seconds()), e.Err)
	return &Error{Host: e.Host, Stage: e.Stage, Cause: HeadBusy, Err: err}
}
