// Package srun carries to the nodes of a Slurm job by steps of that job, one for many nodes:
// where compute nodes keep ssh out, and into the environment that srun gives the ranks. A
// node for which the step of many comes to nothing has one of its own (package broadcast).
// What srun cannot start or loses is told in its own words.
//
// It refuses to ask Slurm for nodes: a job is there, or it reaches nobody. It knows no
// login, no key and no port.
package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"preflight/hostfile"
	"preflight/hostsys"
	"preflight/remote"
	"preflight/remote/broadcast"
)

// Name is what traces call this carrier.
const Name = "srun"

// Carrier starts steps of the Slurm job that this process is in.
type Carrier struct {
	program string // srun's path
	set     *broadcast.Set
	names   *hostsys.Names
	user    string
}

// most is how many nodes one step has. What all hear goes to each from here, so that what a
// step costs grows with the square of its nodes.
const most = 64

// New is a Carrier to these nodes, each of which has timeout to be reached. It fails outside a Slurm job, and where
// there is no srun.
func New(nodes []string, timeout time.Duration) (*Carrier, error) {
	if os.Getenv("SLURM_JOB_ID") == "" {
		return nil, errors.New("srun reaches the nodes of a Slurm job, and this is typed outside of any: begin one with salloc or sbatch")
	}
	program, err := exec.LookPath("srun")
	if err != nil {
		return nil, fmt.Errorf("there is no srun to reach the nodes of this Slurm job with: %w", err)
	}
	c := &Carrier{program: program, names: hostsys.NewNames("")}
	if me, err := user.Current(); err == nil {
		c.user = me.Username
	}
	wanted := map[string]bool{}
	for _, node := range nodes {
		wanted[hostfile.Bare(node)] = true
	}
	// One node that the job has not would keep all others of its step from beginning.
	here, err := hostfile.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	if err != nil {
		here = nil // a node that the job has not is told by srun
	}
	here = slices.DeleteFunc(here, func(node string) bool { return !wanted[node] })
	c.set = broadcast.New(broadcast.Engine{
		Program: func(nodes []string, script string, arguments ...string) *exec.Cmd {
			count := strconv.Itoa(len(nodes))
			return c.command([]string{"--label", "--nodes=" + count, "--ntasks=" + count, "--nodelist=" + strings.Join(nodes, ",")}, script, arguments...)
		},
		Task: "SLURM_PROCID", Node: "SLURMD_NODENAME",
		Split: split, Said: said, Explain: explain,
		Own:  func(node string) remote.Connection { return &step{carrier: c, node: node, closed: make(chan struct{})} },
		Most: most, Patience: patience(timeout),
	}, here)
	return c, nil
}

// Files are those of a step that runs: its three streams, and what tells its end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close ends the steps of many nodes.
func (c *Carrier) Close() error { return c.set.Close() }

// Dial only names the node: its step begins with the command. The address is where its name
// leads from here, if anywhere.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, User: c.user}
	host := hostfile.Bare(name)
	if found, err := c.names.LookupNetIP(ctx, "ip", host); err == nil && len(found) > 0 {
		trace.Address = netip.Addr.Unmap(found[0]).String()
	}
	if err := ctx.Err(); err != nil {
		return nil, trace, &remote.Error{Host: name, Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	}
	return c.set.Connect(host), trace, nil
}

// patience is for all tasks of a step to begin, of the time that a node has: one that is not
// there by then would keep the others waiting, and end them when srun gives it up.
func patience(timeout time.Duration) time.Duration {
	return cmp.Or(timeout, remote.DefaultTimeout) / 6
}

// options of every srun: one task a node, beside whatever runs in the job (--overlap, since Slurm
// 20.11; without it the step would wait for the CPUs of the others), on all processors of
// the node and with nothing of MPI's. --chdir is of a directory that every node has.
var options = []string{"--overlap", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--job-name=preflight", "--chdir=/"}

// ofStep takes from a task what srun tells it of how many nodes and tasks its step has: that
// is ours, and not the launch's.
const ofStep = "unset SLURM_NNODES SLURM_NTASKS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE; "

// command is a srun with more options, for a script and its arguments.
func (c *Carrier) command(more []string, script string, arguments ...string) *exec.Cmd {
	return exec.Command(c.program, slices.Concat(options, more, []string{"/bin/sh", "-c", ofStep + script}, arguments)...)
}

// step is a srun for one node. It is a connection from which one command is started.
type step struct {
	carrier *Carrier
	node    string

	once   sync.Once
	closed chan struct{}

	mu      sync.Mutex
	command *exec.Cmd // nil before the step
	ended   <-chan struct{}
	pipes   []io.Closer
	said    remote.Tail
	cut     bool   // it was we who ended it
	before  string // what srun had said by then
}

// Start runs the command, which is for a shell, as the step's task.
func (s *step) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := func(err error) (*remote.Process, *remote.Error) {
		if short := remote.Short(remote.StageSession, err); short != nil {
			return nil, short
		}
		return nil, &remote.Error{Stage: remote.StageSession, Cause: remote.StepFailed, Err: err}
	}
	if s.isClosed() {
		return failed(os.ErrClosed)
	}
	// Pipes of our own: those of exec.Cmd are closed when it has ended, read or not.
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer theirIn.Close()
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return failed(err)
	}
	defer theirOut.Close()
	s.pipes = []io.Closer{stdin, stdout}
	s.said.Full = func() {} // the caller's has a limit
	cmd := s.carrier.command([]string{"--nodes=1", "--ntasks=1", "--nodelist=" + s.node}, command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, io.MultiWriter(stderr, &s.said)
	cmd.WaitDelay = closeGrace
	ended, err := hostsys.Start(cmd)
	if err != nil {
		stdin.Close()
		stdout.Close()
		return failed(err)
	}
	s.command, s.ended = cmd, ended
	return &remote.Process{Stdin: stdin, Stdout: stdout, Wait: s.exit}, nil
}

// exit is how the task ended: srun's status is its task's.
func (s *step) exit() remote.Exit {
	<-s.ended
	status, isUnix := s.command.ProcessState.Sys().(syscall.WaitStatus)
	code := s.command.ProcessState.ExitCode()
	switch {
	case isUnix && status.Signaled():
		return remote.Exit{Status: -1}
	case code > 128:
		return remote.Exit{Status: -1, Signal: strings.TrimPrefix(cmp.Or(unix.SignalName(syscall.Signal(code-128)), fmt.Sprint(code-128)), "SIG")}
	}
	return remote.Exit{Status: code}
}

// Alive is false: srun says nothing of a node that is silent.
func (s *step) Alive() bool { return false }

// Wait returns when srun has ended.
func (s *step) Wait() error {
	select {
	case <-s.ended:
	case <-s.closed:
	}
	return io.EOF
}

// taskEnded is how srun tells the end of a task that it had started.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/task_state.c and srun_job.c; "srun: error: w2: task 0: Killed".
var taskEnded = regexp.MustCompile(`task \d+: `)

// Broken is what srun says of a step that was not to be had, or was taken away.
func (s *step) Broken() *remote.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.command == nil || s.cut {
		return nil
	}
	select {
	case <-s.ended:
	default:
		return nil
	}
	if s.command.ProcessState.Success() {
		return nil
	}
	return explain(s.said.Text())
}

// explain is the failure that srun's words tell, nil for none.
func explain(said string) *remote.Error {
	if !strings.Contains(said, "srun: ") || taskEnded.MatchString(said) {
		return nil
	}
	failure := &remote.Error{Cause: remote.StepFailed, Err: errors.New(cmp.Or(reasons(said), said))}
	if strings.Contains(said, notInJob) {
		failure.Cause = remote.NotInJob
	}
	return failure
}

// notInJob is ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE of a step: the job has not the node,
// or not what the step wants of it, and ours wants nothing.
//
// Source: SchedMD/slurm 22.05, src/common/slurm_errno.c.
const notInJob = "Requested node configuration is not available"

// reason is a line of srun's that says why nothing starts: an error, or that the step waits
// for what other steps hold.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/launch.c, "Job %u step creation temporarily
// disabled, retrying".
var reason = regexp.MustCompile(`^srun: (?:error: (.*)|(.*step creation.*))$`)

// reasons are those among srun's words, "" for none.
func reasons(said string) string {
	var all []string
	for _, line := range strings.Split(said, "; ") {
		if found := reason.FindStringSubmatch(line); found != nil {
			all = append(all, found[1]+found[2])
		}
	}
	return strings.Join(all, "; ")
}

// LookOut watches a srun that keeps waiting: what it has said so far may be why.
func (s *step) LookOut(context.Context) remote.Lookout { return lookout{s} }

type lookout struct{ step *step }

func (l lookout) Tell(failure *remote.Error) {
	l.step.mu.Lock()
	defer l.step.mu.Unlock()
	switch why := reasons(l.step.before); {
	case failure == nil:
	case why != "":
		failure.Cause, failure.Err = remote.StepFailed, fmt.Errorf("still waiting after %s: %s", failure.Detail["after"], why)
	default:
		failure.Err = fmt.Errorf("nothing came through srun within %s, and it says nothing either", failure.Detail["after"])
	}
}

func (lookout) Dismiss() {}

func (s *step) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// closeGrace is how long srun may take to end its step when it is told to. A task whose srun
// was killed is ended by Slurm within seconds.
const closeGrace = time.Second

// Close ends the step: with its standard input, by the signal at which srun ends it at once,
// hung tasks as well, and at last without srun.
func (s *step) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, pipe := range s.pipes {
			pipe.Close()
		}
		if s.command == nil {
			return
		}
		select {
		case <-s.ended:
			return
		default:
		}
		s.cut, s.before = true, s.said.Text()
		s.command.Process.Signal(unix.SIGTERM)
		killing := time.AfterFunc(closeGrace, func() {
			select {
			case <-s.ended:
			default:
				hostsys.KillGroup(s.command)
			}
		})
		go func() {
			<-s.ended
			killing.Stop()
		}()
	})
	return nil
}
