// SPDX-License-Identifier: Apache-2.0

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
	"net/netip"
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
	"preflight/remote"
	"preflight/remote/broadcast"
)

// Name is what traces call this carrier.
const Name = "srun"

// Carrier starts steps of the Slurm job that this process is in.
type Carrier struct {
	program string   // srun's path
	own     []string // its options that a user has given
	set     *broadcast.Set
	names   *hostsys.Names
	user    string
}

// most is how many nodes one step has. What all hear goes to each from here, so that what a
// step costs grows with the square of its nodes. What one of them leaves unread lies here and there, 1,024
// messages at either end, before srun takes nothing more for any.
//
// Source: SchedMD/slurm 22.05, STDIO_MAX_FREE_BUF in src/api/step_io.c and src/slurmd/slurmstepd/io.h.
const most = 64

// Options say how to reach nodes.
type Options struct {
	Job       Job
	Container []string      // srun's own options that say what steps run in, pyxis's, each one word
	Timeout   time.Duration // of each node
}

// New is a Carrier to these nodes. It fails outside a Slurm job, and where there is no srun.
func New(nodes []string, o Options) (*Carrier, error) {
	if o.Job.ID == "" {
		return nil, errors.New("srun reaches the nodes of a Slurm job, and this is typed outside of any: begin one with salloc or sbatch, or name one that runs with --jobid")
	}
	program, err := exec.LookPath("srun")
	if err != nil {
		return nil, fmt.Errorf("there is no srun to reach the nodes of this Slurm job with: %w", err)
	}
	c := &Carrier{program: program, own: o.Container, names: hostsys.NewNames("")}
	if o.Job.Named {
		c.own = append([]string{"--jobid=" + o.Job.ID}, o.Container...)
	}
	if me, err := user.Current(); err == nil {
		c.user = me.Username
	}
	wanted := map[string]bool{}
	for _, node := range nodes {
		wanted[hostfile.Bare(node)] = true
	}
	// One node that the job has not would keep all others of its step from beginning.
	here, err := hostfile.Expand(o.Job.Nodes)
	if err != nil {
		here = nil // a node that the job has not is told by srun
	}
	here = slices.DeleteFunc(here, func(node string) bool { return !wanted[node] })
	c.set = broadcast.New(broadcast.Engine{
		Name: Name,
		Program: func(nodes, argv []string) *exec.Cmd {
			count := strconv.Itoa(len(nodes))
			more := []string{"--nodes=" + count, "--ntasks=" + count, "--nodelist=" + strings.Join(nodes, ",")}
			if len(nodes) > 1 {
				more = append(more, "--label")
			}
			return exec.Command(c.program, slices.Concat(options, c.own, more, argv)...)
		},
		Task: "SLURM_PROCID", Node: "SLURMD_NODENAME", Step: "SLURM_STEP_ID", Bring: bring(o), Sheds: ofStep(o.Job),
		Split: split, Said: said, Explain: explain,
		Most: most, Patience: patience(o.Timeout),
	}, here)
	return c, nil
}

// bring is by sbcast, whose blocks each node hands on to others: nil where there is none, and
// where a step runs in what has other files than the node. A file that is there already is kept,
// and a path without a step's number never asked for, which would be all nodes of the job.
//
// Source: SchedMD/slurm 22.05, src/sbcast/opts.c, and src/slurmd/slurmd/req.c,
// _file_bcast_register_file: the job's owner opens the file, with O_EXCL and mode 0700.
func bring(o Options) func(step, file, path string) hostsys.Child {
	program, err := exec.LookPath("sbcast")
	if err != nil || len(o.Container) > 0 {
		return nil
	}
	theirs := func(variable string) bool { return strings.HasPrefix(variable, "SBCAST_") }
	env := append(slices.DeleteFunc(os.Environ(), theirs), "SBCAST_SEND_LIBS=no")
	return func(step, file, path string) hostsys.Child {
		return hostsys.Child{Path: program, Limit: 2 * patience(o.Timeout), Env: env, Args: []string{"--jobid=" + o.Job.ID + "." + step, "--size=8m", file, path}}
	}
}

// Files are those of a step that runs: its three streams, and what tells its end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close ends the steps of many nodes.
func (c *Carrier) Close() error { return c.set.Close() }

// Dial only names the node: its step begins with the command. The address is where its name
// leads from here, if anywhere.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, Options: c.own, User: c.user}
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
func explain(said string, came broadcast.State) *remote.Error {
	if said := pyxisError.FindString(said); said != "" && came != broadcast.Going {
		return &remote.Error{Cause: remote.PyxisFailed, Err: errors.New(said)}
	}
	if came == broadcast.Going && reasons(said) == "" || !strings.Contains(said, "srun: ") || taskEnded.MatchString(said) {
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
