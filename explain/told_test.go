// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTold checks that an exception is shown with all its lines, and without the following lines of
// other ranks.
func TestTold(t *testing.T) {
	c := signatures(t)
	const head = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
	keys := []string{"\tMissing key(s) in state_dict: \"head.bias\". ", "\tsize mismatch for embed.weight"}
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"alone", head + "RuntimeError: Error(s) in loading:\n" + keys[0] + "\n" + keys[1] + "\n", keys},
		{"without a margin", head + "ValueError: config:\nhidden_size is 4096\nand was 2048\n", []string{"hidden_size is 4096", "and was 2048"}},
		{"one line", head + "ValueError: config\n", nil},
		{"an empty line", head + "ValueError: config:\n\nbye\n", nil},
		{"a logger", head + "ValueError: config:\n4096\n2025-03-01 10:00:00,123 INFO bye\n", []string{"4096"}},
		{"a launcher", head + "ValueError: config:\n[rank1]: bye\n4096\n", nil},
		{"a table", head + "ValueError: config:\n4096\n=====\ntrain.py FAILED\n", []string{"4096"}},
		{"a bar", head + "ValueError: config:\n4096\n 14%|#4   | 1/7\n", []string{"4096"}},
		{"frames", head + "RuntimeError: CUDA:\nPass CUDA_LAUNCH_BLOCKING=1\nException raised from x at y.cpp:1 (most recent call first):\nframe #0: z\n", []string{"Pass CUDA_LAUNCH_BLOCKING=1"}},
		{"another exception", head + "ValueError: config:\n4096\nValueError: other\n", []string{"4096"}},
		{"another traceback", head + "ValueError: config:\n4096\n" + head + "ValueError: other\n", []string{"4096"}},
		{"two ranks", in("[rank0]: ", head+"ValueError: config:\n") + "[rank1]: bye\n[rank0]: 4096\n[rank1]: bye\n[rank0]: 2048\n", []string{"4096", "2048"}},
		{"pdsh", in("w3: ", head+"ValueError: config:\n4096\n"), []string{"4096"}},
		{"stamped", in("2025-03-01T10:00:00.1Z ", head+"ValueError: config:\n\t4096\nbye\n"), []string{"\t4096"}},
		{"loose", "ValueError: config:\n4096\n", []string{"4096"}},
		{"known", "TypeError: Descriptors cannot not be created directly.\nRegenerate it.\n", []string{"Regenerate it."}},
		{"without end", head + "ValueError: config:\n" + strings.Repeat("on\n", 100), strings.Fields(strings.Repeat("on ", mostTold))},
	} {
		r := c.Explain([]Source{read("train.log", test.log)})
		found := r.Program
		if found == nil && len(r.Causes) > 0 {
			found = &r.Causes[0]
		}
		if found == nil {
			t.Errorf("%s: nobody is blamed", test.name)
		} else if diff := cmp.Diff(test.want, found.Evidence[0].More); diff != "" {
			t.Errorf("%s: %q goes on otherwise (-want +got):\n%s", test.name, found.Evidence[0].Text, diff)
		}
	}
}

// TestToldOfMany checks that very many long exceptions take a bounded amount of memory.
func TestToldOfMany(t *testing.T) {
	var log strings.Builder
	for i := range 3 * mostHeard {
		fmt.Fprintf(&log, "ValueError: shard %c%d:\n%s\n", 'a'+i%26, i, strings.Repeat("x", 50))
	}
	seen, heard := newTally(1), 0
	seen.sources = []string{"log"}
	if err := signatures(t).read(read("log", log.String()), 0, seen); err != nil {
		t.Fatal(err)
	}
	for _, o := range seen.occurrences {
		if o.told != nil {
			heard++
		}
	}
	if heard < mostHeard || heard > mostHeard+mostTelling {
		t.Errorf("%d are kept, want %d", heard, mostHeard)
	}
}

// in puts a prefix before each line.
func in(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

// TestCut checks that a text that is too long is cut between words, and that the cut is marked.
func TestCut(t *testing.T) {
	words := strings.Repeat("seven7 ", 200)
	for _, one := range []struct {
		text         string
		at           int
		begins, ends string
	}{
		{strings.Repeat("x", widest), 100, "x", "x"},
		{words, 0, "seven7 ", " seven7 …"},
		{words + "found", len(words), "… seven7 ", " seven7 found"},
		{words + "found " + words, len(words), "… seven7 ", " seven7 …"},
		{strings.Repeat("x", 2000) + "found", 2000, "… x", "xfound"},
		{strings.Repeat("ä", 1000), 701, "… ä", "ä …"},
	} {
		got := evidence(one.text, one.at)
		if len(got) > widest || len(got) < widest-2*longestWord || !strings.HasPrefix(got, one.begins) || !strings.HasSuffix(got, one.ends) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if strings.Contains(one.text, "found") && !strings.Contains(got, "found") {
			t.Errorf("not what was found: %q", got)
		}
	}
}
