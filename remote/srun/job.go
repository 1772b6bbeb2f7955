// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
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
)

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
