// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"preflight/hostfile"
)

// TestCrashes: a launcher that only saw the signal tells at least whose crash it was.
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
