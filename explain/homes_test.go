// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHomes checks that a failure that names only the rank gets the rank's node, if a launcher
// names that node.
func TestHomes(t *testing.T) {
	const (
		oom   = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has\n"
		table = `Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_10:03:44
  host      : gpu-17.cluster.local
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 140283)
  error_file: <N/A>
`
		library = "3: python3: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory\n"
		agent   = "E1127 10:03:45.801000 211 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 73) of binary: /venv/bin/python\n"
	)
	for log, want := range map[string]string{
		oom:         "",
		oom + table: "gpu-17.cluster.local",
		oom + table + strings.ReplaceAll(table, "gpu-17", "gpu-18"):            "", // the rank was restarted on another node
		library + "srun: error: cn7: task 3: Exited with exit code 127\n":      "cn7",
		library + "srun: error: cn7: tasks 0-2,3: Exited with exit code 127\n": "cn7",
		library + "srun: error: cn7: tasks 4-7: Exited with exit code 127\n":   "",
		agent + oom + "srun: error: cn7: task 3: Exited with exit code 1\n":    "", // a task is an agent with several ranks
		"(raylet) 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 7ab1, IP: 10.0.0.3) over the last time period.\n": "10.0.0.3",
		"Node:             gpu-node-7/10.0.0.7\n      Reason:       OOMKilled\n":                                                                                                        "gpu-node-7",
		"Node: n1/10.0.0.7\nNode: n2/10.0.0.8\n      Reason:       OOMKilled\n":                                                                                                         "",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if len(r.Causes) == 0 {
			t.Errorf("%q: no cause", log)
			continue
		}
		f := r.Causes[0]
		if got := strings.Join(f.Nodes, " "); got != want {
			t.Errorf("%q: on %q, not on %q", log, got, want)
		}
		if told := !strings.Contains(strings.Join(f.Fix, "\n"), "NODE"); told != (want != "") {
			t.Errorf("%q: %q", log, f.Fix)
		}
	}
}

func TestNumbersIn(t *testing.T) {
	for list, want := range map[string][]string{
		"":                  nil,
		"7":                 {"7"},
		"0-2,7":             {"0", "1", "2", "7"},
		"2-1":               nil,
		"-":                 nil,
		"0-99999999999":     nil,
		"1,x,0-99999999999": {"1"},
	} {
		if got := numbersIn(list); !cmp.Equal(got, want) {
			t.Errorf("%q: %q, not %q", list, got, want)
		}
	}
}
