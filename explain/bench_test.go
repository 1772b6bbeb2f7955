// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkExplain reads three logs of 100 MB. The first is a log as ranks write it, with progress
// bars, losses, NCCL's lines about its channels and some tracebacks. The second repeats the same
// failure. The third has only unknown failures, all different, as lines and as tracebacks.
func BenchmarkExplain(b *testing.B) {
	b.Run("training", func(b *testing.B) { benchmark(b, training()) })
	b.Run("complaint", func(b *testing.B) {
		benchmark(b, strings.Repeat("[rank3]:[E321 02:07:08.465224069 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n", 1000))
	})
	b.Run("failures", func(b *testing.B) {
		var page strings.Builder
		for i := range 200_000 {
			fmt.Fprintf(&page, "2025-03-01 10:00:00,123 - w%d - ERROR - [rank%d] shard %d could not be opened: permission denied\n", i%8, i%64, i)
		}
		benchmark(b, page.String())
	})
	b.Run("tracebacks", func(b *testing.B) {
		var page strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&page, "Traceback (most recent call last):\n  File \"/opt/app/train_%d.py\", line %d, in main_%d\n    raise ValueError(\"shard %d\")\nValueError: shard %d\n", i, i%997, i, i, i)
		}
		benchmark(b, page.String())
	})
}

func training() string {
	var page strings.Builder
	for i := range 400 {
		fmt.Fprintf(&page, "[2025-03-01 10:%02d:%02d,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=%d, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]\n", i/60, i%60, i)
		fmt.Fprintf(&page, "w%d: [rank%d]: {'loss': 1.%03d, 'grad_norm': 0.7, 'learning_rate': 9.9e-06, 'epoch': 0.01}\n", i%8, i%64, i)
		fmt.Fprintf(&page, "w%d:31%02d:31%02d [%d] NCCL INFO Channel %02d/0 : %d[%d] -> %d[%d] [send] via NET/IB/%d/GDRDMA\n", i%8, i%64, i%64, i%8, i%32, i, i%8, i+1, (i+1)%8, i%8)
		fmt.Fprintf(&page, "\r%3d%%|████      | %d/400 [00:01<00:02, 201.2it/s]", i/4, i)
		if i%100 == 0 {
			page.WriteString("\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"train.py\", line 3, in step\n[rank1]: ValueError: caught and printed\n")
		}
	}
	return page.String()
}

func benchmark(b *testing.B, page string) {
	const megabytes = 100
	times := megabytes << 20 / len(page)
	catalogue := signatures(b)
	b.SetBytes(int64(times * len(page)))
	b.ReportAllocs()
	for b.Loop() {
		source := Source{"log", func() (io.ReadCloser, error) {
			var pages []io.Reader
			for range times {
				pages = append(pages, strings.NewReader(page))
			}
			return io.NopCloser(io.MultiReader(pages...)), nil
		}}
		if r := catalogue.Explain([]Source{source}); r.Lines == 0 {
			b.Fatal("nothing was read")
		}
	}
}
