// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// longestText is the maximum length of a string in a report, for any log.
const longestText = 2000

// FuzzExplain checks that no log makes explain crash, hang or produce endless output, and that all
// output is valid text. It reads each log once alone and once as the logs of two nodes.
func FuzzExplain(f *testing.F) {
	c := signatures(f)
	var all strings.Builder
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			for i, example := range s.Examples {
				f.Add([]byte(example), []byte("w2: "+example))
				fmt.Fprintf(&all, "w%d: [rank%d]: %s\n", i, i, example)
			}
		}
	}
	f.Add([]byte(all.String()), []byte(all.String()))
	f.Add([]byte("\x1f\x8b"), []byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("w1: Traceback (most recent call last):\n  File \"x\"\nw1: Über\xffError: "+strings.Repeat("é", 9000)), []byte("Traceback (most recent call last):\n"+strings.Repeat("é", 9000)+"Error: x"))
	f.Add([]byte("w1:1:1 [0] NCCL INFO NET/IB : Using [0]={[0] a:1/IB, [1] b:1/IB} [RO]; OOB e:1<0>\nw1:1:1 [0] NCCL INFO NCCL_X set by environment to 1."), []byte("NCCL version 2.21.5+cuda12.4"))
	f.Add([]byte(" 5%|█ | 1/2 [0<1]\rboom\r\x1b[31m\x00Mar  1 10:00:00 w1 x: [E301 10:00:00.1 x] y"), []byte("a\r"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		start := worked(t)
		for _, logs := range [][][]byte{{one}, {one, two}} {
			report := c.Explain(sourcesOf(logs))
			if len(report.Unread) == 0 && report.Lines == 0 && strings.Trim(string(one), "\r\n\x00") != "" && !strings.Contains(string(one), "\x1b") {
				t.Error("nothing was read")
			}
			texts(t, "report", reflect.ValueOf(report))
		}
		if took := worked(t) - start; took > 10*time.Second {
			t.Errorf("%d bytes took %v", len(one)+len(two), took)
		}
	})
}

// worked returns the processor time of this process. Elapsed time would also depend on what else
// the machine does.
func worked(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func sourcesOf(logs [][]byte) []Source {
	var sources []Source
	for i, log := range logs {
		sources = append(sources, Source{fmt.Sprintf("w%d.log", i), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(log))), nil }})
	}
	return sources
}

// texts checks that every string of a report is short enough and is valid text.
func texts(t *testing.T, where string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) || len(s) > longestText {
			t.Errorf("%s: %d bytes, %.200q", where, len(s), s)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			texts(t, where, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(t, where, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			texts(t, where, key)
			texts(t, where, v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			texts(t, where+"."+v.Type().Field(i).Name, v.Field(i))
		}
	default: // numbers and booleans need no check
	}
}

// TestHostile checks that logs made to waste time or memory cost little of both.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads megabytes")
	}
	const size = 1 << 20
	for name, unit := range map[string]string{
		"carriage returns":       "\rx",
		"prefixed returns":       "w1: a\rb\rc\n",
		"escapes":                "\x1b[",
		"unfinished titles":      "\x1b]0;",
		"bars":                   "5%|",
		"tracebacks":             "Traceback (most recent call last)\n",
		"exceptions":             "Traceback (most recent call last):\nE%d: x\n",
		"prefixes":               "w1: ",
		"halves of messages":     "Call to posix_fallocate failed ",
		"halves on lines":        "Call to posix_fallocate failed\n",
		"nodes":                  "w%d:1:1 [0] NCCL INFO Using network n%d\n",
		"connections":            "w%d:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
		"ranks that fail":        "[rank%d]: torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (w1, %d).\n",
		"peers that close":       "w%d: NCCL WARN Net : Connection closed by remote peer w%d<1>\n",
		"a name without end":     "Error: failed to extend /dev/shm/nccl-" + strings.Repeat("é", 30_000) + " to 33 bytes, error: No space left on device\n",
		"an exception's":         "Traceback (most recent call last):\nE%d: " + strings.Repeat("é", 30_000) + "\n",
		"a node without end":     strings.Repeat("w1", 20_000) + ": Host key verification failed.\n",
		"stamps":                 "2026-03-01 10:00:00 2026-03-01 10:00:00\n",
		"nothing but line feeds": "\n",
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			for i := 0; log.Len() < size; i++ {
				if log.WriteString(strings.ReplaceAll(unit, "%d", fmt.Sprint(i))); len(unit) < 3 && i%1000 == 999 {
					log.WriteString(" ")
				}
			}
			start := worked(t)
			report := signatures(t).Explain(sourcesOf([][]byte{[]byte(log.String())}))
			if len(report.Unread) > 0 {
				t.Fatal(report.Unread)
			}
			texts(t, "report", reflect.ValueOf(report))
			if took := worked(t) - start; took > 20*time.Second {
				t.Errorf("took %v", took)
			} else {
				t.Log(took)
			}
		})
	}
}
