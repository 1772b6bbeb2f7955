// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"slices"

	"preflight/internal/hostsys"
)

// Stage is the step at which reaching a node failed. The steps begin with the lookup of the node's
// name and end with an agent that answers.
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
	StageInside    Stage = "inside"  // the ranks' container is entered
	StageDeliver   Stage = "deliver" // the agent is copied
	StageStart     Stage = "start"   // the agent starts
	StageTalk      Stage = "talk"    // the agent answers
)

// Cause is the cause of a failure in one word. The catalogue of checks has a fix for every cause. A
// test of the root package compares the two lists.
type Cause string

const (
	NameUnknown Cause = "name-unknown" // the name does not resolve; Detail resolver
	Refused     Cause = "refused"      // the node answered with RST
	TimedOut    Cause = "timed-out"    // no answer to SYN
	NoRoute     Cause = "no-route"     // EHOSTUNREACH, ENETUNREACH
	JumpFailed  Cause = "jump-failed"  // a ProxyJump host failed; Detail jump, cause
	ProxyFailed Cause = "proxy-failed" // a ProxyCommand failed; Detail command

	NotSSH             Cause = "not-ssh"              // the server answers, but not with SSH-2.0; Detail greeting
	ClosedBeforeBanner Cause = "closed-before-banner" // MaxStartups, TCP wrappers, sshd starting
	Silent             Cause = "silent"               // connected, but the server sends no version line
	NoCommonAlgorithm  Cause = "no-common-algorithm"  // Detail kind, offered

	HostKeyUnknown   Cause = "host-key-unknown"         // Detail file, fingerprint, type
	HostsUnreadable  Cause = "known-hosts-unreadable"   // Detail file, reason
	HostKeyChanged   Cause = "host-key-changed"         // Detail file, line, fingerprint, type
	HostKeyRevoked   Cause = "host-key-revoked"         // Detail file, line
	HostKeyOtherType Cause = "host-key-other-algorithm" // Detail known, type

	NoKey            Cause = "no-key"            // there is no key to offer; Detail looked
	KeysRefused      Cause = "keys-refused"      // Detail offered, user
	KeyLocked        Cause = "key-locked"        // the key has a passphrase and no agent holds it; Detail file
	KeyPermissions   Cause = "key-permissions"   // other users may read it, so OpenSSH ignores it; Detail file, mode
	KeyUnreadable    Cause = "key-unreadable"    // we may not read it; Detail file, reason
	KeyBroken        Cause = "key-broken"        // the file holds no private key; Detail file, reason
	AgentUnreachable Cause = "agent-unreachable" // Detail socket
	PasswordOnly     Cause = "password-only"     // the server accepts only methods that need a person; Detail methods
	AccountClosed    Cause = "account-closed"    // expired or locked, according to the server's message; Detail banner

	NoJob Cause = "no-job" // Slurm accepts only users with a job on the node; Detail banner

	SessionRefused  Cause = "session-refused" // MaxSessions 0, exec disabled
	NoShell         Cause = "no-shell"        // nologin, /bin/false, or a missing shell; Detail output, and status if nothing was printed, which may also be a startup file's exit
	ForcedCommand   Cause = "forced-command"  // another program ran; Detail output
	NeedsPTY        Cause = "needs-pty"
	RestrictedShell Cause = "restricted-shell" // rbash and similar; Detail output
	ShellHangs      Cause = "shell-hangs"      // the login starts no command in time; Detail output
	ShellBroken     Cause = "shell-broken"     // startup files end the session or consume its input; Detail output

	NotInJob       Cause = "not-in-job"      // the Slurm job does not include this node
	StepFailed     Cause = "step-failed"     // Slurm does not start the step, or ended it
	RootRefused    Cause = "root-refused"    // Open MPI refuses to run as root
	DaemonMissing  Cause = "daemon-missing"  // mpirun's daemon is not installed, or not in ssh's PATH
	DaemonOther    Cause = "daemon-mismatch" // mpirun's daemon is another release
	NoCallBack     Cause = "no-callback"     // mpirun's daemon cannot reach the launching machine
	MPIRunFailed   Cause = "mpirun-failed"   // any other failure, as mpirun reports it
	NoOverlap      Cause = "no-overlap"      // srun is too old for --overlap
	NoPyxis        Cause = "no-pyxis"        // srun has no pyxis options
	PyxisFailed    Cause = "pyxis-failed"    // the pyxis container does not start
	JobOver        Cause = "job-over"        // the Slurm job has ended
	SlurmSilent    Cause = "slurm-silent"    // the Slurm controller does not answer
	SlurmDistrusts Cause = "slurm-distrusts" // Slurm rejects the credentials, because of munge or clocks that differ

	// Failures to enter the ranks' container: Detail program, output.
	NoEngine         Cause = "no-engine"         // the program is not installed on the node
	EngineDenied     Cause = "engine-denied"     // this account may not enter the container
	EngineDown       Cause = "engine-down"       // the program's daemon is not running
	NoContainer      Cause = "no-container"      // the container, image or process does not exist
	ContainerStopped Cause = "container-stopped" // the container has stopped or is paused
	NoShellInside    Cause = "no-shell-inside"   // the image has no /bin/sh
	OtherArch        Cause = "other-arch"        // the image is for another architecture
	NoInput          Cause = "no-input"          // our input does not arrive, because -i is missing
	GivenTerminal    Cause = "given-terminal"    // the program got -t, which must not be set
	NotEntered       Cause = "not-entered"       // none of the above
	// Failures in a Kubernetes cluster, as the cluster reports them; Detail namespace, container,
	// reason.
	NoCluster      Cause = "no-cluster"       // no API server answers, or the one that answers is not trusted
	NotLoggedIn    Cause = "not-logged-in"    // the API server does not accept the credentials
	Forbidden      Cause = "forbidden"        // the API server knows the user and does not allow the request
	NoPod          Cause = "no-pod"           // the pod or namespace does not exist
	PodPending     Cause = "pod-pending"      // the pod does not run yet
	PodUnready     Cause = "pod-unready"      // the pod runs, but the container does not
	PodEnded       Cause = "pod-ended"        // the pod was evicted, failed, completed, or is being deleted
	NoPodContainer Cause = "no-pod-container" // the pod has no container of that name
	KubeletDown    Cause = "kubelet-down"     // the API server does not reach the pod's machine

	// Failures of a node that should connect to the launching machine.
	NotCome    Cause = "not-come"    // the node has not connected
	WrongToken Cause = "wrong-token" // the node has connected with a wrong token
	NameTwice  Cause = "name-twice"  // several nodes connect with this name
	OtherWire  Cause = "other-wire"  // the node uses another protocol version

	NoDirectory    Cause = "no-directory"     // no private directory could be used; Detail tried
	NoPrograms     Cause = "no-programs"      // PATH has no mkdir, ls …; Detail tried
	DiskFull       Cause = "disk-full"        // Detail tried
	FileLimit      Cause = "file-limit"       // no file may be as large as the agent (ulimit -f); Detail tried
	NoExec         Cause = "noexec"           // Detail tried
	Squatted       Cause = "squatted"         // other users own or may change our directories; Detail tried
	NoUnpacker     Cause = "no-unpacker"      // no gzip on the node
	WrongArch      Cause = "wrong-arch"       // Detail arch, want
	WrongOS        Cause = "wrong-os"         // Detail os
	LibcTooOld     Cause = "libc-too-old"     // Detail message
	AgentKilled    Cause = "agent-killed"     // a signal ended the agent; Detail signal
	NoAddresses    Cause = "no-address-space" // the agent could not reserve memory; Detail message
	AgentExited    Cause = "agent-exited"     // the agent ended by itself; Detail status, stderr
	Frozen         Cause = "frozen"           // connected, then no data until the deadline; Detail after, seen, unreached, jump
	BlackHole      Cause = "black-hole"       // small packets pass, full ones are lost; Detail direction, mtu, size
	Garbage        Cause = "garbage"          // Detail text
	TooMuch        Cause = "too-much"         // Detail limit
	Truncated      Cause = "truncated"        // the stream ended in the middle of an answer
	ConnectionLost Cause = "connection-lost"
	HeadLimit      Cause = "head-limit"  // the launching machine, not the node, has reached a limit; Detail files
	HeadStood      Cause = "head-stood"  // the launching machine stood still, so nothing is known about the node
	HeadBusy       Cause = "head-busy"   // the launching machine was so busy that nothing is known about the node
	Interrupted    Cause = "interrupted" // the user interrupted the run
	Unexpected     Cause = "unexpected"  // none of the above; the message has the details
)

// Error says why one node could not be reached, or was lost.
type Error struct {
	Host   string // name as in the hostfile
	Stage  Stage
	Cause  Cause
	Detail map[string]string // values that a fix needs, under the names given at each Cause
	Err    error             // the error as the side that found it reported it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s: %v", e.Host, e.Stage, e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// isTimed reports whether the failure is only that no data came in time.
func (e *Error) isTimed() bool {
	cause := e.Cause
	if cause == JumpFailed {
		cause = Cause(e.Detail["cause"])
	}
	return slices.Contains([]Cause{TimedOut, Silent, Frozen, NotCome}, cause)
}

// Excuse returns a failure that blames the launching machine instead of the node, if no data came
// in time and the launching machine was busy during the wait. It returns any other error unchanged.
func Excuse(err error, w hostsys.Wait) error {
	if failure, ok := errors.AsType[*Error](err); ok && failure.isTimed() {
		return failure.excused(w)
	}
	return err
}

// excused returns a failure that blames the launching machine instead of the node, if the launching
// machine was busy while it waited.
func (e *Error) excused(w hostsys.Wait) *Error {
	if w.Busy() == 0 {
		return e
	}
	err := fmt.Errorf("it had too little CPU time to notice an answer (%w)", e.Err)
	return &Error{Host: e.Host, Stage: e.Stage, Cause: HeadBusy, Err: err}
}
