// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dumped are the files that torch's flight recorder wrote on each rank.
func dumped(t *testing.T, pattern string) []Source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("flight", "testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []Source
	for _, file := range files {
		all = append(all, Source{file, func() (io.ReadCloser, error) { return os.Open(file) }})
	}
	return all
}

// TestRecorded: what the dumps of several ranks tell is a cause as any other, beside their logs too.
func TestRecorded(t *testing.T) {
	const timeout = "[rank0]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
	missing, apart := dumped(t, "missing/nccl_trace_rank_*"), dumped(t, "op/*")
	for name, test := range map[string]struct {
		sources        []Source
		cause, summary string
	}{
		"missing":        {missing, "collective-timeout", "Rank 2 did not come to all_reduce number 3"},
		"beside the log": {append([]Source{read("w1.log", timeout)}, missing...), "collective-timeout", "Rank 2 did not come to all_reduce number 3"},
		"apart":          {append([]Source{read("w1.log", timeout)}, apart...), "collective-desync", "At number 3 of group 0 (default_pg) rank 1 called all_gather of [16] Float"},
	} {
		r := signatures(t).Explain(test.sources)
		if r.ExitCode != 1 || len(r.Causes) != 1 || r.Causes[0].Cause != test.cause || !strings.HasPrefix(r.Causes[0].Summary, test.summary) {
			t.Errorf("%s: want %s, %q; got %+v", name, test.cause, test.summary, r)
		}
	}
	if r := signatures(t).Explain(missing); r.Causes[0].Ranks[0] != "2" || r.Causes[0].Evidence[0].Line != 2 || r.Lines != 8 {
		t.Errorf("want rank 2, its second record and eight of all: %+v", r)
	}
}

// TestRecordedAlone: one dump tells for whom its rank waits, or that it is not known whether it
// does. Two of one rank are of two runs.
func TestRecordedAlone(t *testing.T) {
	waits := dumped(t, "missing/nccl_trace_rank_0")
	if r := signatures(t).Explain(waits); !strings.Contains(r.Causes[0].Summary, "of ranks 1-2 there is no dump") || !r.Causes[0].Hearsay {
		t.Errorf("the dump of a rank that waits: %+v", r)
	}
	if r := signatures(t).Explain(dumped(t, "missing/nccl_trace_rank_2")); r.ExitCode != 0 || r.Lines != 2 {
		t.Errorf("the dump of a rank that is not told when its calls end: %+v", r)
	}
	if r := signatures(t).Explain(append(waits, dumped(t, "op/nccl_trace_rank_0")...)); len(r.Unread) != 1 || !strings.Contains(r.Unread[0].Reason, "of one run") {
		t.Errorf("two dumps of one rank: %+v", r.Unread)
	}
}
