// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTorn checks that a line that several ranks wrote into is split into the ranks' lines.
// Prefixes in their usual place, and texts that only mention a prefix, must stay unchanged.
func TestTorn(t *testing.T) {
	for _, test := range []struct {
		log  string
		want []string
	}{
		{"loss 2.3[rank3]: ValueError: bad[rank1]: KeyError: 1", []string{"loss 2.3", "[rank3]: ValueError: bad", "[rank1]: KeyError: 1"}},
		{"it/s][2023-09-10 11:45:59,207] [INFO] [launch.py:428] Killing", []string{"it/s]", "[2023-09-10 11:45:59,207] [INFO] [launch.py:428] Killing"}},
		// This line is from modelscope/ms-swift, issue 3934.
		{"g183:12:33 [3] NCCL INFO Trees\ng182:12:33 [1] NCCL INFO Channelg183:12:33 [3] NCCL INFO Channel 00/0", []string{"g183:12:33 [3] NCCL INFO Trees", "g182:12:33 [1] NCCL INFO Channel", "g183:12:33 [3] NCCL INFO Channel 00/0"}},
		{"[default0]:[rank0]: Traceback", []string{"[default0]:[rank0]: Traceback"}},
		{"w1: [rank0]: Traceback", []string{"w1: [rank0]: Traceback"}},
		{"shape[rank] of x[rank1] and y[2023-09-10]", []string{"shape[rank] of x[rank1] and y[2023-09-10]"}},
		{"g1:12:33 [1] NCCL INFO unknowng9:12:33 [3] NCCL INFO Channel", []string{"g1:12:33 [1] NCCL INFO unknowng9:12:33 [3] NCCL INFO Channel"}},
	} {
		var got []string
		for n := range strings.Count(test.log, "\n") + 1 {
			got = append(got, numbered(t, strings.NewReader(test.log))[n+1]...)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", test.log, diff)
		}
	}
}

// TestTornRanks checks that each rank has its own failure if two ranks wrote into one line.
func TestTornRanks(t *testing.T) {
	r := signatures(t).Explain([]Source{read("log", "[rank0]: Traceback (most recent call last):[rank1]: Traceback (most recent call last):\n"+
		"[rank0]:   File \"train.py\", line 10, in <module>\n[rank1]:   File \"train.py\", line 10, in <module>\n"+
		"[rank1]: RuntimeError: CUDA error: out of memory[rank0]: ValueError: bad\n")})
	if len(r.Causes) != 1 || !cmp.Equal(r.Causes[0].Ranks, []string{"1"}) || len(r.Consequences) != 1 || !cmp.Equal(r.Consequences[0].Ranks, []string{"0"}) {
		t.Errorf("rank 1 has no memory and rank 0 an exception of its own: %+v", r)
	}
}
