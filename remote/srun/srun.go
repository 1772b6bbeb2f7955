// SPDX-License-Identifier: Apache-2.0

// Package srun carries to the nodes of a Slurm job by steps of that job: where compute nodes keep ssh
// out, and into the environment that srun gives the ranks. A node has a step of its own, so that it costs
// no other node anything. Of more than a few nodes one step starts the agents of all, which call us (crew.go); a node
// that does not call gets a step of its own. Where our binary is missing on several nodes, one sbcast brings it to them.
// What srun cannot start or loses is told in its own words.
//
// It refuses to ask Slurm for nodes: a job is there, or it reaches nobody. It knows no
// login and no key.
package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/remote"
	"preflight/remote/engine"
)

// Name is what traces call this carrier.
const Name = "srun"

// Carrier starts steps of the Slurm job that this process is in.
type Carrier struct {
	own    []string // srun's options that a user has given
	engine engine.Engine
	names  *hostsys.Names
	user   string
	sbcast *sbcast
	crew   *crew // nil where every node has an srun of its own
}

// Options say how to reach nodes.
type Options struct {
	Job       Job
	Container []string      // srun's own options that say what steps run in, pyxis's, each one word
	Timeout   time.Duration // of each node
	// Callback is the HOST:PORT of this machine where agents are to call, "" for any that they reach.
	Callback string
	// Alone says that no agent is to call: what is started is another command of ours, or runs in a container.
	Alone  bool
	Binary func(goos, arch string) (*remote.Binary, error) // as remote.Options has it
}

// New is a Carrier to these nodes. It fails outside a Slurm job, and where there is no srun.
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
		Program: func(node string, argv []string) *exec.Cmd { // or several, separated by commas
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
	if here := o.Job.among(nodes); !o.Alone && len(o.Container) == 0 && (len(here) >= crewFrom || o.Callback != "") {
		c.crew = newCrew(&c.engine, here, o)
	}
	return c, nil
}

// Files are those of a step that runs: its three streams, and what tells its end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close ends the steps of many nodes, and waits until those of the nodes have ended.
func (c *Carrier) Close() error {
	if c.crew != nil {
		c.crew.close()
	}
	c.sbcast.close()
	c.engine.Close()
	return nil
}

// Dial waits for the node's call where it is to call. Otherwise it only names the node: its step begins with the
// command, and the address is where its name leads from here, if anywhere.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, Options: c.own, User: c.user}
	host, began := hostfile.Bare(name), time.Now()
	if c.crew != nil {
		connection, address, uncalled := c.crew.dial(ctx, host)
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

// Bring is by sbcast, with the other nodes that wait for the same file.
func (s step) Bring(ctx context.Context, path string, content []byte) bool {
	return s.sbcast.bring(ctx, s.node, path, content)
}

// options of every srun: one task a node, beside whatever runs in the job (--overlap, since Slurm
// 20.11; without it the step would wait for the CPUs of the others), on all processors of
// the node and with nothing of MPI's. --chdir is of a directory that every node has.
var options = []string{"--overlap", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--job-name=preflight", "--chdir=/"}

// ofStep is what srun tells a task of how many nodes and tasks its step has, and of which
// nodes where it is not typed in the job: that is ours, and not the launch's.
func ofStep(job Job) []string {
	ours := []string{"SLURM_NNODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}
	if job.Named {
		ours = append(ours, "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_NODELIST")
	}
	return ours
}

// taskEnded is how srun tells the end of a task that it had started.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/task_state.c and srun_job.c; "srun: error: w2: task 0: Killed".
var taskEnded = regexp.MustCompile(`task \d+: `)

// explain is the failure that srun's words tell, nil for none. One that goes on waits for
// what it says.
func explain(said string, came engine.State) *remote.Error {
	if said := pyxisError.FindString(said); said != "" && came != engine.Going {
		return &remote.Error{Cause: remote.PyxisFailed, Err: errors.New(said)}
	}
	if came == engine.Going && reasons(said) == "" || !strings.Contains(said, "srun: ") || taskEnded.MatchString(said) {
		return nil
	}
	failure := &remote.Error{Cause: remote.StepFailed, Err: errors.New(cmp.Or(reasons(said), said))}
	for _, named := range causes {
		if strings.Contains(said, named.words) {
			failure.Cause = named.cause
			break
		}
	}
	return failure
}

// pyxisError is what pyxis says of a container that does not begin, and what enroot said to it.
//
// Source: NVIDIA/pyxis, pyxis_slurmstepd.c and enroot.c, enroot_print_log.
var pyxisError = regexp.MustCompile(`error: pyxis: .*`)

// causes are those that srun's words name, the first that does.
//
// Source: SchedMD/slurm 22.05, src/common/slurm_errno.c, and getopt_long(3) for what a srun before
// 20.11 says of --overlap and one without pyxis of its options. Of a step, ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE says that the job has
// not the node, or not what the step wants of it, and ours wants nothing.
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

// reason is a line of srun's that says why nothing starts: an error, or that the step waits
// for what other steps hold.
//
// Source: SchedMD/slurm 22.05, src/srun/libsrun/launch.c, "Job %u step creation temporarily
// disabled, retrying".
var reason = regexp.MustCompile(`^(?:\S*/)?srun: (?:error: (.*)|(.*step creation.*|unrecognized option .*))$`)

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
