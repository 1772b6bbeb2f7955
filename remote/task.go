package remote

import (
	"bufio"
	"bytes"
	"io"
	"strings"
)

// Where one program reaches many nodes, all of them hear everything and what they say
// comes back mixed. So every line is short, and names whom it is for:
//
//	TASK REST     a line to the agent that is that task
//	TASK+ PIECE   a part of one, which goes on in the next
//	* REST        what all lines to a shell (deliver.sh) end in that end in *, instead
//	TASK! …       nothing more comes for it: the end of its standard input
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
)

// more begins a piece of an agent's line that is not its last.
var more = []byte("@@more ")

// HearsMany is whether a command of ours knows its own lines among those for many: one that goes
// into what ranks run in there, or cleans, does not.
func HearsMany(command string) bool { return command == deliverCommand }

// Address is lines as they are sent to one task of many.
func Address(task string, lines []byte) []byte {
	var all []byte
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		for len(line) > maxPiece {
			all = append(append(append(all, task...), "+ "...), line[:maxPiece]...)
			all, line = append(all, '\n'), line[maxPiece:]
		}
		all = append(append(append(append(all, task...), ' '), line...), '\n')
	}
	return all
}

// Opening is the first line to a task, which a shell reads byte by byte, as it does those to
// all the others: what they have in common, all behind their first word, is sent once. common
// is what Opening returned for the task before, "" for none.
func Opening(task, line, common string) (text, commonNow string) {
	word, rest, _ := strings.Cut(line, " ")
	if common == "" {
		text, common = "* "+rest, rest
	}
	if rest != common {
		return text + task + " " + line, common
	}
	return text + task + " " + word + " *\n", common
}

// AddressEnd tells one task of many that nothing more comes for it.
func AddressEnd(task string) []byte { return []byte(task + "! nothing more comes for this one\n") }

// addressed is what of in is for one task.
type addressed struct {
	in   *bufio.Reader
	task []byte
	left []byte // of what has come
}

func (a *addressed) Read(p []byte) (int, error) {
	for len(a.left) == 0 {
		line, err := a.in.ReadSlice('\n') // a longer one is nobody's: its head goes by, and its rest too
		if rest, ours := bytes.CutPrefix(line, a.task); ours && err == nil {
			switch {
			case bytes.HasPrefix(rest, []byte("! ")):
				return 0, io.EOF
			case bytes.HasPrefix(rest, []byte("+ ")):
				a.left = rest[2 : len(rest)-1]
			case bytes.HasPrefix(rest, []byte(" ")):
				a.left = rest[1:]
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return 0, err
		}
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
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
	return &addressed{in: bufio.NewReader(in), task: []byte(task)}, pieces{out}
}
