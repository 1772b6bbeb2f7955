package remote

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// TestManyTasks: lines of any length reach the task that they are for, and come back from the
// one that said them, in whatever order those of others stand between, and every one of them is
// as short and as long as engines need it.
func TestManyTasks(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	line := func() []byte {
		return []byte(strings.Repeat(string(rune('a'+dice.IntN(20))), 30+dice.IntN(dice.IntN(5)*900+10)) + "\n")
	}
	const tasks = 12
	var mixed bytes.Buffer
	want := make([][]byte, tasks)
	var pending [tasks][]byte
	for range 300 {
		task := dice.IntN(tasks)
		text := append(line(), line()...)
		want[task] = append(want[task], text...)
		pending[task] = append(pending[task], Address(strconv.Itoa(task), text)...)
	}
	for left := true; left; {
		left = false
		for _, task := range dice.Perm(tasks) {
			if len(pending[task]) > 0 {
				line, rest, _ := bytes.Cut(pending[task], []byte("\n"))
				if len(line) >= 1000 {
					t.Fatalf("a line of %d bytes", len(line))
				}
				mixed.Write(append(line, '\n'))
				pending[task], left = rest, true
			}
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
