// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"preflight/hostfile"
)

// TestCrashes checks that the report names the node of a crash even if the log has only a
// launcher's message about the signal.
func TestCrashes(t *testing.T) {
	for log, want := range map[string]string{
		"[w3:22110] Signal: Segmentation fault (11)\nmpirun noticed that process rank 5 with PID 22110 on node w3 exited on signal 11 (Segmentation fault).\n": "w3 5",
		"0: step 1\nsrun: error: cn7: task 3: Segmentation fault (core dumped)\nsrun: Terminating StepId=12.0\n":                                               "cn7 3",
		"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 4711 RUNNING AT w3\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n":         "w3 3",
		"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4711 RUNNING AT w3\n=   EXIT CODE: 139\n=   CLEANING UP REMAINING PROCESSES\n":      "w3 ",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if len(r.Causes) != 1 || r.Causes[0].Cause != "rank-crashed" {
			t.Errorf("%q: %v", log, r.Causes)
			continue
		}
		if got := hostfile.Fold(r.Causes[0].Nodes) + " " + strings.Join(r.Causes[0].Ranks, ","); got != want {
			t.Errorf("%q: %q, not %q", log, got, want)
		}
		if !strings.Contains(r.Causes[0].Fix[0], "coredumpctl") {
			t.Errorf("%q: %q", log, r.Causes[0].Fix)
		}
	}
	if r := signatures(t).Explain([]Source{read("log", "w3: torch.OutOfMemoryError: CUDA out of memory. Tried\nsrun: error: w3: task 3: Segmentation fault\n")}); r.Causes[0].Cause != "out-of-memory" {
		t.Errorf("%v", r.Causes)
	}
}

// TestCancelled checks that explain reports the cancellation as the cause if a person ended the job
// and the log shows no other cause.
func TestCancelled(t *testing.T) {
	const (
		interrupt = "Traceback (most recent call last):\n  File \"train.py\", line 10, in <module>\n    step()\nKeyboardInterrupt\n"
		step      = "slurmstepd: error: *** STEP 88124.0 ON cn041 CANCELLED AT 2026-11-27T06:00:29 ***\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
	)
	for log, want := range map[string]string{
		"^CW1127 10:02:11.331000 211 torch/distributed/elastic/agent/server/api.py:704] Received Signals.SIGINT death signal, shutting down workers\n": "job-cancelled",
		"W1127 10:02:11.331000 211 torch/distributed/elastic/agent/server/api.py:704] Received Signals.SIGTERM death signal, shutting down workers\n":  "",
		interrupt: "job-cancelled",
		"torch.OutOfMemoryError: CUDA out of memory. Tried\n" + interrupt: "out-of-memory",
		step: "job-cancelled",
		step + "srun: error: cn7: task 3: Exited with exit code 1\n":                                                "",
		"slurmstepd: error: *** JOB 88124 ON cn041 CANCELLED AT 2026-11-27T06:00:29 ***\n":                          "job-cancelled",
		"slurmstepd: error: *** JOB 88124 ON cn041 CANCELLED AT 2026-11-27T06:00:29 DUE TO TIME LIMIT ***\n" + step: "batch-time-limit",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if got := short(r.Causes); got != want {
			t.Errorf("%q: %q, not %q", log, got, want)
		}
		if r.ExitCode == 0 {
			t.Errorf("%q passes", log)
		}
	}
}

// TestPreempted checks that the fix for a preempted job is not a longer time limit.
func TestPreempted(t *testing.T) {
	r := signatures(t).Explain([]Source{read("log", "slurmstepd: error: *** JOB 88124 ON cn041 CANCELLED AT 2026-11-27T06:00:29 DUE TO PREEMPTION ***\n")})
	fix := strings.Join(r.Causes[0].Fix, "\n")
	if r.Causes[0].Cause != "batch-time-limit" || strings.Contains(fix, "--time") || !strings.Contains(fix, "--requeue") {
		t.Errorf("%s: %s", r.Causes[0].Cause, fix)
	}
}
