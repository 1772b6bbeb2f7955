// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
)

// TestMeeting checks that the report names the missing rank if the other ranks gave up on a
// collective. If ranks were in different calls, the difference must be the cause.
func TestMeeting(t *testing.T) {
	gaveUp := func(group string, rank, seq int, op string, elements int) string {
		return fmt.Sprintf("[rank%d]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] %s[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%d, NumelOut=%d, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n",
			rank, group, rank, seq, op, elements, elements)
	}
	const other = "[rank1]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 5 Rank 1] Exception (either an error or timeout) detected by watchdog at work: 8, last enqueued NCCL work: 11, last completed NCCL work: 7.\n"
	for name, test := range map[string]struct{ log, cause, summary string }{
		"one call":            {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 8, "ALLREDUCE", 9), "collective-timeout", "which another rank did not join"},
		"other sizes":         {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 8, "ALLREDUCE", 1), "collective-desync", "At number 8 rank 0 was in ALLREDUCE (NumelIn 9) and rank 1 was in ALLREDUCE (NumelIn 1)"},
		"other calls":         {gaveUp("", 0, 8, "BROADCAST", 9) + gaveUp("", 1, 8, "ALLREDUCE", 9), "collective-desync", "rank 0 was in BROADCAST"},
		"other numbers":       {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 7, "ALLREDUCE", 1), "collective-timeout", "which another rank did not join"},
		"uneven by nature":    {gaveUp("", 0, 8, "ALLTOALL_BASE", 9) + gaveUp("", 1, 8, "ALLTOALL_BASE", 1), "collective-timeout", "which another rank did not join"},
		"groups, not told":    {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 8, "ALLREDUCE", 1) + other, "collective-timeout", "which another rank did not join"},
		"one is missing":      {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 8, "ALLREDUCE", 9) + gaveUp("", 3, 8, "ALLREDUCE", 9), "collective-timeout", "which rank 2 did not join"},
		"the last is missing": {gaveUp("", 0, 8, "ALLREDUCE", 9) + gaveUp("", 1, 8, "ALLREDUCE", 9) + "[rank2]: RuntimeError: Operation timed out!\n", "collective-timeout", "which rank 2 did not join"},
		"the log of a node":   {gaveUp("", 12, 8, "ALLREDUCE", 9) + gaveUp("", 13, 8, "ALLREDUCE", 9), "collective-timeout", "which another rank did not join"},
	} {
		r := signatures(t).Explain([]Source{read("log", test.log)})
		if len(r.Causes) != 1 || r.Causes[0].Cause != test.cause || !strings.Contains(r.Causes[0].Summary, test.summary) {
			t.Errorf("%s: want %s, %q; got %+v", name, test.cause, test.summary, r.Causes)
		}
	}
}
