// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkExplain reads logs of 100 MB each and reports the processor time for each, which must be
// under 4 s. Elapsed time would also depend on what else the machine does.
func BenchmarkExplain(b *testing.B) {
	examples := examplesOf(signatures(b))
	for _, log := range []struct {
		name string
		page string // repeated to 100 MB
	}{
		// A log as ranks write it, with progress bars, losses, NCCL's lines and some tracebacks.
		{"training", training()},
		{"complaint", strings.Repeat("[rank3]:[E321 02:07:08.465224069 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n", 1000)},
		// Only unknown failures, all different, as lines and as tracebacks.
		{"failures", pages(200_000, func(i int) string {
			return fmt.Sprintf("2025-03-01 10:00:00,123 - w%d - ERROR - [rank%d] shard %d could not be opened: permission denied\n", i%8, i%64, i)
		})},
		{"tracebacks", pages(50_000, func(i int) string {
			return fmt.Sprintf("Traceback (most recent call last):\n  File \"/opt/app/train_%d.py\", line %d, in main_%d\n    raise ValueError(\"shard %d\")\nValueError: shard %d\n", i, i%997, i, i, i)
		})},
		// One line of a megabyte after the other, with words such as error in each kilobyte.
		{"long", pages(4_000, func(i int) string {
			return strings.Repeat(" {'"+letters(i)+"': [1, 2, 3]}", 40) + " Error: " + letters(i*7) + map[bool]string{true: "\n"}[i%1000 == 999]
		})},
		// Every line has the literal text of a signature and another word in it.
		{"almost", pages(100_000, func(i int) string {
			text := examples[i%len(examples)]
			return text[:len(text)/2] + letters(i) + text[len(text)/2:] + "\n"
		})},
		// Colour, CRLF, other scripts, invalid bytes and progress bars.
		{"mixed", pages(100_000, func(i int) string {
			return fmt.Sprintf("\x1b[32m2025-03-01 10:%02d:%02d\x1b[0m | \x1b[1mINFO\x1b[0m | 第%d步 損失 %s \xff déjà vu\r\n\r%3d%%|███▌ | %d/900 [00:01<00:02, 20.2it/s]\x1b[A\r\n", i/60%60, i%60, i, letters(i), i%100, i%900)
		})},
		// Every line has the prefixes of several programs, and no two have the same words.
		{"prefixed", pages(100_000, func(i int) string {
			return fmt.Sprintf("2025-03-01T10:%02d:%02d.%09dZ [pod/trainer-%d/main] gpu%02d: [rank%d]: error rate of %s: %d of 1000\n", i/60%60, i%60, i, i%64, i%64, i%64, letters(i), i%1000)
		})},
		{"json", pages(100_000, func(i int) string {
			return fmt.Sprintf(`{"log":"[rank%d]: shard %s failed: retrying\\n","stream":"stderr","time":"2025-03-01T10:%02d:%02d.%09dZ","kubernetes":{"pod_name":"trainer-%d"}}`+"\n", i%64, letters(i), i/60%60, i%60, i, i%64)
		})},
		// All signatures after each other, as in the log of a job that retries for days.
		{"examples", strings.Join(examples, "\n") + "\n"},
	} {
		b.Run(log.name, func(b *testing.B) { benchmark(b, log.page) })
	}
}

func pages(n int, text func(int) string) string {
	var page strings.Builder
	for i := range n {
		page.WriteString(text(i))
	}
	return page.String()
}

// letters returns a word for a number. The engine treats all numbers as equal, but not all words.
func letters(n int) string {
	word := []byte{}
	for n++; n > 0; n /= 20 {
		word = append(word, "bcdfghjklmnpqrstvwxz"[n%20])
	}
	return string(word)
}

func examplesOf(c *Catalogue) (all []string) {
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			all = append(all, s.Examples...)
		}
	}
	return all
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
	times := max(1, megabytes<<20/len(page))
	catalogue := signatures(b)
	b.SetBytes(int64(times * len(page)))
	b.ReportAllocs()
	start := worked(b)
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
	b.ReportMetric((worked(b)-start).Seconds()/float64(b.N), "cpu-s/op")
}
