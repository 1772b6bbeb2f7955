// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// TestManyTasks: lines of any length reach the task that they are for, and come back from the
// one that said them, in whatever order those of others stand between, and every one of them is
// as short and as long as engines need it. What is much like what went before is not sent again.
func TestManyTasks(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	peers := strings.Repeat("10.77.1.1 ", 300)
	line := func() []byte {
		if dice.IntN(4) == 0 {
			return fmt.Appendf(nil, "like %d %s%d\n", dice.IntN(20), peers, dice.IntN(20))
		}
		return []byte(strings.Repeat(string(rune('a'+dice.IntN(20))), 30+dice.IntN(dice.IntN(5)*900+10)) + "\n")
	}
	const tasks = 12
	var mixed bytes.Buffer
	var saying Saying
	want := make([][]byte, tasks)
	for range 300 {
		task := dice.IntN(tasks)
		text := append(line(), line()...)
		want[task] = append(want[task], text...)
		mixed.Write(saying.To(strconv.Itoa(task), text))
	}
	for line := range bytes.Lines(mixed.Bytes()) {
		if len(line) > 1000 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
	for task := range tasks {
		all := bytes.NewReader(append(mixed.Bytes()[:mixed.Len():mixed.Len()], AddressEnd(strconv.Itoa(task))...))
		var said bytes.Buffer
		in, out := streams(strconv.Itoa(task), iotest.HalfReader(all), &said)
		heard, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(heard, want[task]) {
			t.Fatalf("task %d heard %d bytes of %d: %v", task, len(heard), len(want[task]), err)
		}
		for line := range bytes.Lines(heard) {
			if n, err := out.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		var joined Joined
		var back []byte
		for line := range bytes.Lines(said.Bytes()) {
			if len(line) > 1000 || len(line) < 31 {
				t.Fatalf("a line of %d bytes", len(line))
			}
			if whole := joined.Add(bytes.TrimSuffix(line, []byte("\n"))); whole != nil {
				back = append(append(back, whole...), '\n')
			}
		}
		if !bytes.Equal(back, want[task]) {
			t.Fatalf("task %d said %d bytes of %d", task, len(back), len(want[task]))
		}
	}
}

// TestSaidOnce: what all tasks are asked is sent to the first of them, and to a shell that
// begins later once more.
func TestSaidOnce(t *testing.T) {
	var saying Saying
	ask := func(task string) int {
		return len(saying.To(task, fmt.Appendf(nil, `{"node":"w%s","peers":%q}`+"\n", task, strings.Repeat("10.77.1.1 ", 300))))
	}
	first, again := ask("1"), ask("2")
	saying.Opening("3", "tag offers\n")
	if later := ask("3"); first < 3000 || again > 20 || later != first {
		t.Errorf("%d bytes, then %d, and %d behind an opening", first, again, later)
	}
}

// TestLikeNothing: what refers to a line that was not heard is no line.
func TestLikeNothing(t *testing.T) {
	for _, told := range []string{"\n", "1\n", "1 2\n", "-1 0 x\n", "0 -1 x\n", "4 4 x\n"} {
		if line := like([]byte("seven..\n"), []byte(told)); line != nil {
			t.Errorf("%q is told as %q", told, line)
		}
	}
}

// TestBeatOfAll: one beat is heard by every task, and nothing else is one.
func TestBeatOfAll(t *testing.T) {
	in, _ := streams("3", bytes.NewReader(Beat(beatLine)), nil)
	if heard, err := io.ReadAll(in); err != nil || string(heard) != string(beatLine) {
		t.Errorf("of a beat a task heard %q: %v", heard, err)
	}
	for _, line := range []string{`{"id":1}` + "\n", `{"open":{}}` + "\n", "tag offers\n"} {
		if beat := Beat([]byte(line)); beat != nil {
			t.Errorf("%q is said to all as %q", line, beat)
		}
	}
}
