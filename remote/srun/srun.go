// SPDX-License-Identifier: Apache-2.0

// Package srun reaches the nodes of a Slurm job with steps of that job. That works where compute
// nodes do not allow ssh, and gives the same environment that srun gives the ranks. Every node has
// a step of its own, so that it affects no other node. If there are more than a few nodes, one step
// starts all agents, which then call back (group.go). A node that does not call back gets a step of
// its own. If several nodes lack the agent, one sbcast copies it to them. Failures of srun are
// reported in srun's own words.
//
// The package does not allocate nodes: without a job it reaches none. It uses no login and no key.
package srun

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/remote"
	"preflight/remote/engine"
)

// Name is this carrier's name in traces.
const Name = "srun"

// Carrier starts steps in a Slurm job to reach its nodes.
type Carrier struct {
	own    []string // srun options from the user
	engine engine.Engine
	names  *hostsys.Names
	user   string
	sbcast *sbcast
	group  *group // nil if every node has an srun of its own
}

// Options says how to reach nodes.
type Options struct {
	Job       Job
	Container []string      // srun's pyxis options for the steps, each one word
	Timeout   time.Duration // limit per node
	// Callback is the HOST:PORT of the launching machine to which agents connect. If it is "",
	// agents use any address that they reach.
	Callback string
	// Alone means that no agent may call back, because the step runs another command or runs in a
	// container.
	Alone  bool
	Binary func(goos, arch string) (*remote.Binary, error) // as in remote.Options
}

// New returns a Carrier for these nodes. It fails outside a Slurm job, and if srun is not
// installed.
func New(nodes []string, o Options) (*Carrier, error) {
	if o.Job.ID == "" {
		return nil, errors.New("it needs a Slurm job, and this shell is outside of any: begin one with salloc or sbatch, or name a running one with --jobid")
	}
	program, err := exec.LookPath("srun")
	if err != nil {
		return nil, fmt.Errorf("it needs srun in PATH: %w", err)
	}
	c := &Carrier{own: o.Container, names: hostsys.NewNames("")}
	if o.Job.Named {
		c.own = append([]string{"--jobid=" + o.Job.ID}, o.Container...)
	}
	if me, err := user.Current(); err == nil {
		c.user = me.Username
	}
	c.engine = engine.Engine{
		Name: Name,
		Program: func(node string, argv []string) *exec.Cmd { // node may be several nodes, separated by commas
			count := strconv.Itoa(1 + strings.Count(node, ","))
			more := []string{"--nodes=" + count, "--ntasks=" + count, "--nodelist=" + node}
			if count != "1" {
				more = append(more, "--label")
			}
			return exec.Command(program, slices.Concat(options, c.own, more, argv)...)
		},
		Sheds: ofStep(o.Job), Explain: explain,
	}
	c.sbcast = newSbcast(&c.engine, len(nodes), o)
	if here := o.Job.among(nodes); !o.Alone && len(o.Container) == 0 && (len(here) >= groupFrom || o.Callback != "") {
		c.group = newGroup(&c.engine, here, o)
	}
	return c, nil
}

// Files counts the files of one srun per node: its three streams, and the file that reports its
// end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close ends the steps that run on many nodes, and waits until the steps of single nodes have
// ended.
func (c *Carrier) Close() error {
	if c.group != nil {
		c.group.close()
	}
	c.sbcast.close()
	c.engine.Close()
	return nil
}

// Dial waits until the node calls back, if it should. Otherwise Dial only looks up the address to
// which the node's name resolves on the launching machine, if any. The step then starts together
// with the command.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, Options: c.own, User: c.user}
	host, began := hostfile.Bare(name), time.Now()
	if c.group != nil {
		connection, address, uncalled := c.group.dial(ctx, host)
		if connection != nil {
			trace.Address, trace.Connected = address, time.Since(began)
			return connection, trace, nil
		}
		trace.Uncalled = uncalled
	}
	trace.Address = engine.Address(ctx, c.names, host)
	if err := ctx.Err(); err != nil {
		return nil, trace, &remote.Error{Host: name, Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	}
	return step{c.engine.Connect(host), host, c.sbcast}, trace, nil
}

// step is the connection to one node.
type step struct {
	remote.Connection
	node   string
	sbcast *sbcast
}

// Bring uses one sbcast for this node and all other nodes that wait for the same file.
func (s step) Bring(ctx context.Context, path string, content []byte) bool {
	return s.sbcast.bring(ctx, s.node, path, content)
}

// options lists the options of every srun. They request one task per node on all of its CPUs,
// without MPI. The step runs next to the job's other steps (--overlap, since Slurm 20.11). Without
// --overlap the step would wait for CPUs that other steps hold. --chdir names a directory that
// every node has.
var options = []string{"--overlap", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--job-name=preflight", "--chdir=/"}

// ofStep returns the variables in which srun describes the step's nodes and tasks. If the user
// named the job, it also returns those that describe the job's nodes. All of them describe
// preflight's step rather than the launch.
func ofStep(job Job) []string {
	ours := []string{"SLURM_NNODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}
	if job.Named {
		ours = append(ours, "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_NODELIST")
	}
	return ours
}

// taskEnded matches srun's report of the end of a task that had started.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/task_state.c and srun_job.c; "srun: error: w2: task
// 0: Killed".
var taskEnded = regexp.MustCompile(`task \d+: `)

// explain returns the failure that srun's messages show, nil for none. If srun is still running,
// the message says what srun waits for.
func explain(output string, came engine.State) *remote.Error {
	if output := pyxisError.FindString(output); output != "" && came != engine.Going {
		return &remote.Error{Cause: remote.PyxisFailed, Err: errors.New(output)}
	}
	if came == engine.Going && reasons(output) == "" || !strings.Contains(output, "srun: ") || taskEnded.MatchString(output) {
		return nil
	}
	failure := &remote.Error{Cause: remote.StepFailed, Err: errors.New(cmp.Or(reasons(output), output))}
	for _, named := range causes {
		if strings.Contains(output, named.words) {
			failure.Cause = named.cause
			break
		}
	}
	return failure
}

// pyxisError matches pyxis's message about a container that does not start. The message contains
// enroot's output.
//
// Source: NVIDIA/pyxis, pyxis_slurmstepd.c and enroot.c, enroot_print_log.
var pyxisError = regexp.MustCompile(`error: pyxis: .*`)

// causes maps srun's messages to causes. The first match counts.
//
// Source: SchedMD/slurm 22.05, src/common/slurm_errno.c, and getopt_long(3) for the message of an
// srun before 20.11 about --overlap, and of one without pyxis about its options. For a step,
// ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE means that the node does not belong to the job, or lacks
// what the step requests; our step requests nothing.
var causes = []struct {
	words string
	cause remote.Cause
}{
	{"Requested node configuration is not available", remote.NotInJob},
	{"'--overlap'", remote.NoOverlap},
	{"'--container-", remote.NoPyxis},
	{"Invalid job id specified", remote.JobOver},
	{"Job/step already completing or completed", remote.JobOver},
	{"Unable to contact slurm controller", remote.SlurmSilent},
	{"Socket timed out on send/recv operation", remote.SlurmSilent},
	{"Invalid authentication credential", remote.SlurmDistrusts},
	{"Protocol authentication error", remote.SlurmDistrusts},
	{"Invalid job credential", remote.SlurmDistrusts},
	{"munged", remote.SlurmDistrusts},
}

// reason matches a line in which srun says why nothing starts. It is an error, or a message that
// the step waits for resources that other steps hold.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/launch.c, "Job %u step creation temporarily
// disabled, retrying".
var reason = regexp.MustCompile(`^(?:\S*/)?srun: (?:error: (.*)|(.*step creation.*|unrecognized option .*))$`)

// reasons returns the lines of srun's output that match reason, "" for none.
func reasons(output string) string {
	var all []string
	for _, line := range strings.Split(output, "; ") {
		if found := reason.FindStringSubmatch(line); found != nil {
			all = append(all, found[1]+found[2])
		}
	}
	return strings.Join(all, "; ")
}

// Job is a running Slurm job. The zero Job means no job.
type Job struct {
	ID    string
	Nodes string // as in SLURM_JOB_NODELIST
	// Named means that the user named the job. Otherwise it is the job that this process is in,
	// which srun finds by itself.
	Named bool
}

// Own returns the job that this process is in.
func Own() Job { return Job{ID: os.Getenv("SLURM_JOB_ID"), Nodes: os.Getenv("SLURM_JOB_NODELIST")} }

// among returns the given nodes that belong to the job, in the order in which Slurm numbers the
// tasks of a step. A node outside the job would stop the whole step from starting.
func (j Job) among(nodes []string) []string {
	here, err := hostfile.Expand(j.Nodes)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(here, func(node string) bool {
		return !slices.ContainsFunc(nodes, func(name string) bool { return hostfile.Bare(name) == node })
	})
}

// IsJob reports whether text is a Slurm job: a number, an element of an array job, or a part of a
// heterogeneous job.
func IsJob(text string) bool { return jobName.MatchString(text) }

var jobName = regexp.MustCompile(`^[1-9][0-9]{0,9}([_+][0-9]{1,7})?$`)

// Find asks Slurm for a job by its name. It fails if no step can start in that job.
func Find(ctx context.Context, name string, timeout time.Duration) (Job, error) {
	program, err := exec.LookPath("squeue")
	if err != nil {
		return Job{}, fmt.Errorf("finding job %s needs squeue in PATH: %w", name, err)
	}
	var answer bytes.Buffer
	output, err := hostsys.Child{Path: program, Args: []string{"--noheader", "--jobs=" + name, "--format=%A|%i|%T|%U|%N"}, Limit: timeout}.Stream(ctx, &answer)
	switch {
	case ctx.Err() != nil:
		return Job{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return Job{}, fmt.Errorf("squeue gave no answer for job %s within %s", name, text.Duration(timeout.Seconds()))
	case err != nil:
		return Job{}, fmt.Errorf("job %s: squeue says %s", name, hostsys.Complaint(text.Escape(strings.ReplaceAll(strings.TrimSpace(output), "\n", "; ")), err))
	}
	return read(name, strings.Fields(answer.String()))
}

// read parses squeue's output and returns the job of the given name.
func read(name string, lines []string) (Job, error) {
	if len(lines) == 0 { // the job ended recently; for a job that ended long ago squeue fails
		return Job{}, fmt.Errorf("job %s has ended", name)
	}
	column := strings.Split(lines[0], "|")
	if len(column) != 5 || !IsJob(column[0]) {
		return Job{}, fmt.Errorf("squeue's answer for job %s is not a job: %s", name, text.Escape(lines[0]))
	}
	id, called, state, owner, nodes := column[0], column[1], column[2], column[3], column[4]
	switch {
	case len(lines) > 1:
		return Job{}, fmt.Errorf("job %s stands for %d jobs: name one of them, such as %s", name, len(lines), text.Escape(called))
	case state != "RUNNING":
		return Job{}, fmt.Errorf("job %s does not run, it is %s", name, text.Escape(state))
	case owner != strconv.Itoa(os.Getuid()):
		account := owner
		if known, err := user.LookupId(owner); err == nil {
			account = known.Username
		}
		return Job{}, fmt.Errorf("job %s belongs to %s, and Slurm lets only its owner start a step in it", name, text.Escape(account))
	}
	return Job{ID: id, Nodes: nodes, Named: true}, nil
}
