// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
)

// widest is where srun cuts what it labels: a piece of exactly that length is never the end
// of a line, which goes on behind the next label of the same task.
//
// Source: SchedMD/slurm 22.05, src/api/step_io.c, and tried with it (shared lines of 1.3 MB).
const widest = 1024

// label reads the number of a task that srun puts in front of a line, as in " 3: text".
func label(line []byte) (task int, text []byte, is bool) {
	number, text, is := bytes.Cut(line, []byte(": "))
	task, err := strconv.Atoi(string(bytes.TrimLeft(number, " ")))
	if !is || err != nil || task < 0 {
		return -1, line, false
	}
	return task, text, true
}

// split hands what tasks wrote to each. What bears no label is nobody's.
func split(from io.Reader, to func(task int, piece []byte)) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if task, text, is := label(line); is {
			if bytes.HasSuffix(text, []byte("\n")) && len(text) == widest+1 {
				text = text[:widest]
			}
			to(task, text)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// said tells whose a line of srun's standard error is: -1 is srun itself.
func said(line string) (task int, text string) {
	task, rest, _ := label([]byte(line))
	return task, string(rest)
}
