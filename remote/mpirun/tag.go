// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"io"
	"regexp"
	"strconv"
)

// tag stands before every fragment of what a rank of Open MPI writes, wherever in a line that
// begins, and another rank's fragment may follow in the middle of it. What comes behind is
// that rank's, up to the next tag: no agent writes a `<` (task.go of package remote).
//
// "[1,3]<stdout>:", and of PRRTE "[prterun-head-77@1,3]<stdout>: ", by its documentation.
// Measured with 4.1.4: fragments are of 4 KiB; of lines shorter than their tags some are lost.
var tag = regexp.MustCompile(`\[(?:\d{1,10},(\d{1,7})\]<std(?:out|err)>:|[A-Za-z0-9._-]+@\d{1,10},(\d{1,7})\]<std(?:out|err)>: )`)

// longestTag is more than any tag has: the end of what was read may be the beginning of one.
const longestTag = 300

// split hands to each rank what it wrote. What stands before the first tag is nobody's.
func split(from io.Reader, to func(task int, piece []byte)) {
	text := make([]byte, 0, 64<<10)
	rank := -1
	hand := func(piece []byte) {
		if rank >= 0 && len(piece) > 0 {
			to(rank, piece)
		}
	}
	for {
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		rest := text
		for {
			at := tag.FindSubmatchIndex(rest)
			if at == nil {
				break
			}
			hand(rest[:at[0]])
			rank, rest = rankOf(rest, at), rest[at[1]:]
		}
		if keep := beginning(rest); err == nil {
			hand(rest[:len(rest)-keep])
			rest = rest[len(rest)-keep:]
		} else {
			hand(rest)
			return
		}
		text = append(text[:0], rest...)
	}
}

// rankOf is the number in a tag that was found there.
func rankOf(text []byte, at []int) int {
	first := max(at[2], at[4])
	rank, _ := strconv.Atoi(string(text[first:max(at[3], at[5])])) // seven digits at most
	return rank
}

// said tells whose a line of mpirun's standard error is: -1 is mpirun itself, and its ssh.
func said(line string) (task int, text string) {
	if at := tag.FindStringSubmatchIndex(line); at != nil && at[0] == 0 {
		return rankOf([]byte(line), at), line[at[1]:]
	}
	return -1, line
}

// beginning is how many bytes at the end may be the beginning of a tag.
func beginning(text []byte) int {
	for i := max(0, len(text)-longestTag); i < len(text); i++ {
		if text[i] == '[' && maybeTag.Match(text[i:]) {
			return len(text) - i
		}
	}
	return 0
}

// maybeTag is a tag that has begun.
var maybeTag = regexp.MustCompile(`^\[(?:[A-Za-z0-9._-]+@)?(?:\d*|\d+,\d*|\d+,\d+\](?:<[a-z]*)?|\d+,\d+\]<[a-z]+>:?)$|^\[[A-Za-z0-9._-]+$`)
