// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dumps reads files that torch 2.15 wrote on three ranks with gloo (testdata/README.md).
func dumps(t *testing.T, pattern string) []Dump {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []Dump
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !Is(text[:min(len(text), 4096)]) {
			t.Errorf("%s is not taken for a dump", file)
		}
		dump, err := Read(file, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dump)
	}
	return all
}

// TestReal: what torch wrote itself, as a pickle and as JSON.
func TestReal(t *testing.T) {
	const missing = "flight recorder: rank 2 did not come to all_reduce number 3 of group 0 (default_pg): ranks 0-1 wait in it; the last call of rank 2 is broadcast number 2 of group 0 (default_pg), made"
	for pattern, want := range map[string]string{
		"missing/nccl_trace_rank_*": missing,
		"missing/*.json":            missing,
		"op/*":                      "flight recorder: at number 3 of group 0 (default_pg) rank 1 called all_gather of [16] Float, and ranks 0,2 called all_reduce of [16] Float",
	} {
		if got := texts(Compare(dumps(t, pattern))); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", pattern, got, want)
		}
	}
}

func texts(said []Said) string {
	var all []string
	for _, s := range said {
		all = append(all, s.Text)
	}
	return strings.Join(all, "\n")
}

// entry is one call as JSON has it.
func entry(group string, number int, op, sizes, state string) string {
	ops := strings.Fields(op)
	key, between := "collective_seq_id", len(ops) > 1
	if between {
		key = "p2p_seq_id"
	}
	return fmt.Sprintf(`{"process_group": [%q, "undefined"], %q: %d, "is_p2p": %t, "profiling_name": "nccl:%s", "input_sizes": %s, "input_dtypes": ["Float"], "state": %q, "retired": false, "time_created_ns": 1795528214990918933,
		"frames": [{"name": "all_reduce", "filename": "/venv/lib/torch/distributed/distributed_c10d.py", "line": 3}, {"name": "step", "filename": "/job/train.py", "line": 40}]}`,
		group, key, number, between, op, sizes, state)
}

// ranks are the dumps of ranks 0 to n, each with entries of its own, in groups.
func ranks(t *testing.T, groups string, entries ...[]string) []Dump {
	t.Helper()
	var all []Dump
	for rank, own := range entries {
		if own == nil {
			continue
		}
		text := fmt.Sprintf(`{"version": "2.4", "pg_config": {%s}, "entries": [%s]}`, groups, strings.Join(own, ","))
		dump, err := Read(fmt.Sprintf("nccl_trace_rank_%d.json", rank), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dump)
	}
	return all
}

// TestCompare: made of the fields that the recorder of NCCL has, which needs GPUs to record.
func TestCompare(t *testing.T) {
	const (
		world = `"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}`
		two   = world + `, "7": {"name": "7", "desc": "tp", "ranks": "[1, 2]"}`
		from  = " (train.py:40 in step)"
	)
	call := func(number int, state string) string { return entry("0", number, "all_reduce", "[[4, 2]]", state) }
	done, open := call(1, "completed"), call(2, "started")
	early := []string{done, call(2, "completed")}
	for name, test := range map[string]struct {
		groups  string
		entries [][]string
		want    string
	}{
		"all well":     {world, [][]string{early, early, early}, ""},
		"one missing":  {world, [][]string{{done, open}, {done}, {done, open}}, "rank 1 did not come to all_reduce number 2 of group 0: ranks 0,2 wait in it" + from + "; the last call of rank 1 is all_reduce number 1 of group 0, completed" + from},
		"never called": {world, [][]string{{done, open}, {}, {done, open}}, "rank 1 did not come to all_reduce number 2 of group 0: ranks 0,2 wait in it" + from + "; rank 1 has made no call"},
		"other size": {world, [][]string{{done, open}, {done, entry("0", 2, "all_reduce", "[[4, 3]]", "scheduled")}, {done, open}},
			"at number 2 of group 0 rank 1 called all_reduce of [4, 3] Float" + from + ", and ranks 0,2 called all_reduce of [4, 2] Float" + from},
		"uneven by nature": {world, [][]string{{entry("0", 1, "all_to_all", "[[1]]", "completed")}, {entry("0", 1, "all_to_all", "[[2]]", "completed")}, {entry("0", 1, "all_to_all", "[[3]]", "completed")}}, ""},
		"not finished":     {world, [][]string{early, {done, open}, early}, "rank 1 has not finished all_reduce number 2 of group 0" + from + ", and ranks 0,2 have; there it is started"},
		"none finished":    {world, [][]string{{done, open}, {done, open}, {done, open}}, "ranks 0-2, all of group 0, are in all_reduce number 2 of one size" + from + ", and none has finished it"},
		"no dump":          {world, [][]string{{done, open}, {done, open}, nil}, "ranks 0-1 wait in all_reduce number 2 of group 0" + from + ", and of rank 2 there is no dump"},
		"older ones lost":  {world, [][]string{{call(5, "completed"), call(6, "completed")}, {call(6, "completed")}, {call(6, "completed")}}, ""},
		"who waits elsewhere is not first": {two, [][]string{{done, open}, {done, entry("7", 1, "all_gather", "[[1]]", "started")}, {done}},
			"rank 2 did not come to"},
		"nobody receives": {world, [][]string{{entry("0", 1, "send 0->1", "[[4]]", "started")}, {}, {}}, "rank 1 did not come to send 0->1 (call 1) of group 0: rank 0 waits in it" + from + "; rank 1 has made no call"},
		"both are there":  {world, [][]string{{entry("0", 1, "send 0->1", "[[4]]", "started")}, {entry("0", 1, "recv 1<-0", "[[4]]", "started")}, {}}, ""},
		"put together": {world, [][]string{{entry("0", 1, "send 0->1", "[[4]]", "scheduled"), strings.Replace(entry("0", 1, "coalesced of", "[]", "completed"), " of", "", 1)}, {}, {}},
			""},
	} {
		got := Compare(ranks(t, test.groups, test.entries...))
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0].Text, "flight recorder: "+test.want)) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, texts(got), test.want)
		}
	}
}

// TestReadRefuses: what is no dump, or nobody's, is an error that says so.
func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nccl_trace_rank_0": "\x80\x02}q\x00X\x01\x00\x00\x00aK\x01s.", "rank_1.json": `{"pg_config": {}`, "rank_2.json": `[]`,
	} {
		if _, err := Read(name, []byte(text)); !errors.Is(err, ErrNoDump) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read("dump", []byte(`{"version": "2.4"}`)); err == nil || !strings.Contains(err.Error(), "nccl_trace_rank_3") {
		t.Errorf("a dump of nobody: %v", err)
	}
}

// TestManyRanks: what 64 ranks keep at most is compared in the time of a test: no rank is held against each other one.
func TestManyRanks(t *testing.T) {
	var all []Dump
	members := make([]int, 64)
	for rank := range members {
		members[rank] = rank
		d := Dump{Rank: rank, Groups: map[string][]int{"0": members}}
		for n := range 2000 {
			d.Calls = append(d.Calls, Call{Record: n + 1, Group: "0", Number: int64(n + 1), Op: "all_reduce", Elements: 8, State: "completed"})
		}
		all = append(all, d)
	}
	all[7].Calls = all[7].Calls[:1999]
	for rank := range all {
		all[rank].Calls[len(all[rank].Calls)-1].State = "started"
	}
	all[7].Calls[1998].State = "completed"
	got := texts(Compare(all))
	if want := "flight recorder: rank 7 did not come to all_reduce number 2000 of group 0: ranks 0-6,8-63 wait in it"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []string{"testdata/missing/nccl_trace_rank_2", "testdata/missing/rank_2.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := Read("rank_1", text); err == nil {
			Compare([]Dump{d, {Rank: 2, Groups: d.Groups, Calls: d.Calls}})
		}
	})
}
