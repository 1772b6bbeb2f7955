// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Where one program reaches many nodes, all of them hear everything and what they say
// comes back mixed. So every line is short, and names whom it is for:
//
//	TASK REST     a line to the agent that is that task
//	TASK+ PIECE   a part of one, which goes on in the next line
//	TASK= N M PIECE
//	              a line of the first N bytes of the last long one that came whole or in
//	              parts, for whomever, then PIECE, then the last M bytes of that one
//	* REST        what all lines to a shell (deliver.sh) end in that end in *, instead
//	@ REST        a line to all that are agents: a beat
//	TASK.         nothing more comes for it: the end of its standard input
//	@@more PIECE  a part of a line of an agent, which goes on in its next; who said it,
//	              the program tells
//
// Two engines cut and mix what is longer: srun labels pieces of 1024 bytes, and Open MPI
// tags fragments of 4 KiB, of which it loses the end where lines are shorter than its tags
// (22.05.8 and 4.1.4, measured). What agents say is JSON as Go writes it, so no `<` of
// theirs is taken for the beginning of a tag.
const (
	maxPiece = 900 // bytes of a line in one piece: with what stands before it, less than 1000
	minPiece = 40  // and of the last one: longer than any tag
	minLong  = 100 // and of a line that others are told by
)

// more begins a piece of an agent's line that is not its last.
var more = []byte("@@more ")

// HearsMany is whether a command of ours knows its own lines among those for many: one that goes
// into what ranks run in there, or cleans, does not.
func HearsMany(command string) bool { return command == deliverCommand }

// Saying is what one program that reaches many nodes is told. What is long is much the same for
// all of them, and everybody hears it, so that it is sent once.
type Saying struct {
	opening string // what openings have in common, "" before the first
	long    []byte // the last one that was not told by another, since the last opening: a shell remembers none
}

// To is lines as they are sent to one task. Nothing may stand between them.
func (s *Saying) To(task string, lines []byte) []byte {
	var all []byte
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) > minLong {
			first, last := shared(s.long, line)
			if piece := line[first : len(line)-last]; len(piece) < min(maxPiece, len(line)-minPiece) {
				all = append(fmt.Appendf(all, "%s= %d %d %s", task, first, last, piece), '\n')
				continue
			}
			s.long = bytes.Clone(line)
		}
		for len(line) > maxPiece {
			all = append(append(append(all, task...), "+ "...), line[:maxPiece]...)
			all, line = append(all, '\n'), line[maxPiece:]
		}
		all = append(append(append(append(all, task...), ' '), line...), '\n')
	}
	return all
}

// shared is how much of its beginning and of its end a line has in common with another.
func shared(long, line []byte) (first, last int) {
	most := min(len(long), len(line))
	for first < most && long[first] == line[first] {
		first++
	}
	for last < most-first && long[len(long)-1-last] == line[len(line)-1-last] {
		last++
	}
	return first, last
}

// Opening is the first line to a task, which a shell reads byte by byte, as it does those to
// all the others: what they have in common, all behind their first word, is sent once.
func (s *Saying) Opening(task, line string) (text string) {
	word, rest, _ := strings.Cut(line, " ")
	s.long = nil
	if s.opening == "" {
		text, s.opening = "* "+rest, rest
	}
	if rest != s.opening {
		return text + task + " " + line
	}
	return text + task + " " + word + " *\n"
}

// Beat is the beat in what is said to one task as it is sent to all of them, nil where that is none.
func Beat(line []byte) []byte {
	if !bytes.Equal(line, beatLine) {
		return nil
	}
	return append([]byte("@ "), line...)
}

// AddressEnd tells one task of many that nothing more comes for it.
func AddressEnd(task string) []byte { return []byte(task + ". \n") }

// addressed is what of in is for one task.
type addressed struct {
	in   *bufio.Reader
	task string
	left []byte // of what has come

	begun, long []byte // for whomever: the parts that have come of a line, and the last long one
}

func (a *addressed) Read(p []byte) (int, error) {
	for len(a.left) == 0 {
		line, err := a.in.ReadSlice('\n') // a longer one is nobody's: its head goes by, and its rest too
		if err != nil && err != bufio.ErrBufferFull {
			return 0, err
		}
		to, rest, _ := bytes.Cut(line, []byte(" "))
		switch task, ours := bytes.CutPrefix(to, []byte(a.task)); {
		case err != nil:
		case string(to) == "@":
			a.left = rest
		case ours && string(task) == ".":
			return 0, io.EOF
		case bytes.HasSuffix(to, []byte("+")):
			if a.begun = append(a.begun, rest[:len(rest)-1]...); len(a.begun) > maxRequest {
				return 0, bufio.ErrTooLong
			}
			if ours && string(task) == "+" {
				a.left = rest[:len(rest)-1]
			}
		case bytes.HasSuffix(to, []byte("=")):
			if ours && string(task) == "=" {
				a.left = like(a.long, rest)
			}
		default:
			if len(a.begun)+len(rest) > minLong+1 {
				a.long, a.begun = append(a.begun, rest...), a.long[:0]
			}
			if ours && len(task) == 0 {
				a.left = rest
			}
		}
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// like is the line that is told by what it has in common with another. What we would not
// have said is none.
func like(long, told []byte) []byte {
	var first, last int
	parts := bytes.SplitN(told, []byte(" "), 3)
	if len(parts) < 3 {
		return nil
	}
	first, _ = strconv.Atoi(string(parts[0]))
	last, _ = strconv.Atoi(string(parts[1]))
	long = bytes.TrimSuffix(long, []byte("\n"))
	if first < 0 || last < 0 || first+last > len(long) {
		return nil
	}
	return slices.Concat(long[:first], bytes.TrimSuffix(parts[2], []byte("\n")), long[len(long)-last:], []byte("\n"))
}

// pieces writes lines, which come whole, as the task of a program of many says them.
type pieces struct{ out io.Writer }

func (w pieces) Write(line []byte) (int, error) {
	var all []byte
	for rest := line; len(rest) > 0; {
		size := len(rest)
		if size > maxPiece {
			size = min(maxPiece, size-minPiece)
			all = append(append(append(all, more...), rest[:size]...), '\n')
		} else {
			all = append(all, rest...)
		}
		rest = rest[size:]
	}
	n, err := w.out.Write(all)
	if err == nil {
		n = len(line)
	}
	return min(n, len(line)), err
}

// Joined puts the lines together that one task of many says.
type Joined struct{ begun []byte }

// Add takes the next line of the task, without its newline, and returns one that is whole,
// or nil. What is longer than any line of ours may be is as good as whole.
func (j *Joined) Add(line []byte) []byte {
	piece, goesOn := bytes.CutPrefix(line, more)
	j.begun = append(j.begun, piece...)
	if goesOn && len(j.begun) <= maxLine {
		return nil
	}
	whole := j.begun
	j.begun = nil
	return whole
}

// streams are those of an agent that is that task of a program that reaches many nodes,
// which is "" where it is alone.
func streams(task string, in io.Reader, out io.Writer) (io.Reader, io.Writer) {
	if task == "" {
		return in, out
	}
	return &addressed{in: bufio.NewReader(in), task: task}, pieces{out}
}
