// SPDX-License-Identifier: Apache-2.0

// Package hostfile reads the hosts of a launch from DeepSpeed's hostfile and resource filters, from
// node sets as pdsh and ClusterShell write them, and from Slurm's node lists.
//
// The package accepts what DeepSpeed accepts and refuses what DeepSpeed refuses, down to the white
// space. If it read one line differently, preflight would check another launch than the one that
// happens. For valid input that has a surprising effect, it returns a [Note].
//
// Other packages use its versions of Python's text rules and of release comparison.
//
// The package does not resolve host names or connect to hosts: a name is only a string. The rules
// are those of deepspeed/launcher/runner.py, v0.6.0 to 0.19.8, each for the releases that have it.
package hostfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"

	"preflight/internal/text"
)

// DefaultPath is the hostfile that DeepSpeed reads if the command names none (runner.py,
// DLTS_HOSTFILE).
const DefaultPath = "/job/hostfile"

const (
	// maxFile is a limit in bytes above the size of any real hostfile. It keeps preflight from
	// reading a whole checkpoint that was named by mistake.
	maxFile = 16 << 20
	// maxRanks is the maximum number of slots of all hosts together, because each slot takes
	// memory.
	maxRanks = 1 << 20
)

// Host is one node of the launch.
type Host struct {
	Name string `json:"name"` // as written: "w1", "user@w1", "10.0.0.1"
	// Slots lists the accelerator indices to use, in rank order. If it is empty, the host runs
	// nothing. If it is nil, the number of slots is unknown, as with -w.
	Slots []int `json:"slots"`
	Line  int   `json:"line,omitempty"` // line in the hostfile; 0 if the host comes from elsewhere
}

// Bare returns a host name without its user: "w1" for "user@w1". ssh uses the part after the last @
// as the host.
func Bare(name string) string { return name[strings.LastIndexByte(name, '@')+1:] }

// Note describes valid input that makes the launch do something that the user is unlikely to want.
// The check launcher-args reports it.
type Note struct {
	ID      string `json:"trap"`           // kebab-case: "include-drops-host", "single-host-runs-here", "zero-slots"
	Line    int    `json:"line,omitempty"` // line in the hostfile; 0 for an argument
	Message string `json:"message"`
}

// LineError describes one line of a file that DeepSpeed refuses or cannot use.
type LineError struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // line number from 1; 0 for the file as a whole
	Message string `json:"message"` // what is wrong and what to do
	// DeepSpeed is DeepSpeed's own error message, "" if it would print none.
	DeepSpeed string `json:"deepspeed"`
	Err       error  `json:"-"` // the system's error, nil if there is none
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

func (e *LineError) Unwrap() error { return e.Err }

// ReadFile parses the hostfile at path. A missing file is an error, although DeepSpeed would only
// warn and train on the launching machine. Every error is or wraps a [*LineError].
func ReadFile(path, deepspeed string) ([]Host, []Note, error) {
	const quietly = "Unable to find hostfile, will proceed with training with local resources only."
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, &LineError{File: path, DeepSpeed: quietly, Err: err,
			Message: fmt.Sprintf("hostfile not found (%v)%s", cause(err), findIt(path))}
	case info.IsDir():
		return nil, nil, &LineError{File: path, DeepSpeed: quietly,
			Message: "is a directory and not a hostfile: name a file with -H, or run preflight in the directory of your hostfile"}
	case !info.Mode().IsRegular():
		return nil, nil, &LineError{File: path, DeepSpeed: quietly,
			Message: "is a device or pipe and not a hostfile: name a file with -H"}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, &LineError{File: path, Err: err,
			DeepSpeed: fmt.Sprintf("PermissionError: [Errno 13] Permission denied: %s", PythonRepr(path)),
			Message:   fmt.Sprintf("cannot be read (%v): make it readable for the user who launches", cause(err))}
	}
	defer file.Close()
	return Parse(file, path, deepspeed)
}

// findIt returns what to do about a missing hostfile, as the end of an error message. For the
// default path the advice is different, because the user most likely did not name that path and
// cannot correct it.
func findIt(path string) string {
	if path == DefaultPath {
		return ": name yours with -H FILE, or the nodes with -w 'node[01-16]'"
	}
	return cmp.Or(text.DidYouMean(nearFile(path)), ": check the path")
}

// cause returns the system's error without the path, because LineError already names the path.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// Parse reads a hostfile as the given release of DeepSpeed does. "" or an unreadable version means
// the newest release. A line is "name slots=N". There is one host per line, in rank order. Parse
// skips empty lines, lines that begin with '#', and anything after N. Releases before v0.8.0 are
// stricter and allow no comments. The name is used only in messages.
//
// Parse reports all bad lines at once, as a [*multierror.Error] of [*LineError].
func Parse(r io.Reader, name, deepspeed string) ([]Host, []Note, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, nil, &LineError{File: name, Err: err, Message: fmt.Sprintf("cannot be read: %v", err)}
	}
	if len(data) > maxFile {
		return nil, nil, &LineError{File: name, Message: fmt.Sprintf("larger than %d MiB, so this is no hostfile: check the path", maxFile>>20)}
	}
	p := parser{file: name, older: Before(deepspeed, "0.8.0"), unnamed: Before(deepspeed, "0.9.4"), firstAt: map[string]int{}}
	if !utf8.Valid(data) {
		p.undecodable = pyDecodeError(data)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, nil, p.noText(data)
	}
	if at := bytes.IndexByte(data, '\r'); at >= 0 {
		// DeepSpeed gives the file itself to Open MPI. Tested with Open MPI 4.1.4.
		p.notes = append(p.notes, Note{ID: "openmpi-line-ends", Line: 1 + bytes.Count(data[:at], []byte("\n")), Message: "the hostfile has Windows line ends, which DeepSpeed accepts and mpirun of Open MPI refuses: convert them"})
	}
	for i, line := range pyLines(string(data)) {
		p.read(i+1, line)
	}
	if p.bad != nil {
		return nil, nil, p.bad
	}
	if len(p.hosts) == 0 {
		return nil, nil, p.noHost()
	}
	return p.hosts, p.notes, nil
}

type parser struct {
	file        string
	older       bool           // DeepSpeed before v0.8.0
	unnamed     bool           // DeepSpeed before v0.9.4, whose error does not quote the line
	undecodable string         // Python's error for the first byte that is not UTF-8
	firstAt     map[string]int // maps a name to the first line with it
	ranks       int            // number of slots so far
	hosts       []Host
	notes       []Note
	bad         *multierror.Error
}

// noText returns the only error of a file with a NUL byte, such as a program or UTF-16 text. Errors
// for the other lines of such a file would not help. DeepSpeed would accept a name with a NUL byte,
// but no command line can contain it.
func (p *parser) noText(data []byte) error {
	if utf16Marked(string(data)) {
		return &LineError{File: p.file, DeepSpeed: p.undecodable, Message: "is not UTF-8: " + encodingHint(string(data))}
	}
	return &LineError{File: p.file, DeepSpeed: p.undecodable, Message: "not a text file (it contains a NUL byte): check the path"}
}

// noHost returns the error for a file without an entry. DeepSpeed before v0.8.0 treated such a file
// as missing.
func (p *parser) noHost() error {
	e := &LineError{File: p.file, Message: `no host in this file: write one line per node, such as "w1 slots=8"`}
	if p.older {
		e.Message += " (DeepSpeed before 0.8.0 would silently train on this machine only)"
	} else {
		e.DeepSpeed = "Hostfile is empty or not formatted correctly, unable to proceed with launching."
	}
	return e
}

func (p *parser) read(number int, raw string) {
	if !utf8.ValidString(raw) {
		p.refuse(number, p.undecodable, "is not UTF-8: "+encodingHint(raw))
		return
	}
	line := pyStrip(raw)
	if line == "" || line[0] == '#' && !p.older {
		return
	}
	name, digits, rest, original := p.entry(line)
	if original != "" {
		explain := hint
		if p.older {
			explain = olderHint
		}
		p.refuse(number, original, explain(line))
		return
	}
	if first, seen := p.firstAt[name]; seen {
		original = fmt.Sprintf("Hostfile contains multiple entries for %s, unable to proceed with launching", name)
		if p.older {
			original = fmt.Sprintf("host %s is already defined", name)
		}
		p.refuse(number, original, fmt.Sprintf("host %q is already in line %d: remove one of the two lines", name, first))
		return
	}
	p.firstAt[name] = number
	p.add(number, name, digits, rest)
}

func (p *parser) add(number int, name, digits, rest string) {
	slots, err := strconv.Atoi(digits)
	if err != nil || slots > maxRanks-p.ranks {
		p.refuse(number, "", fmt.Sprintf("slots=%s makes more than %d ranks in total (DeepSpeed would accept the line): write the number of accelerators of %q", abridged(digits), maxRanks, name))
		return
	}
	p.ranks += max(slots, 0)
	p.hosts = append(p.hosts, Host{Name: name, Slots: FirstSlots(slots), Line: number})
	p.note(number, name, slots, rest)
}

func (p *parser) refuse(line int, deepspeed, message string) {
	p.bad = multierror.Append(p.bad, &LineError{File: p.file, Line: line, Message: message, DeepSpeed: deepspeed})
	p.bad.ErrorFormat = oneALine
}

// FirstSlots returns the slots 0 to n-1. It never returns nil: like Python's range(n), the list is
// empty if n is below 1.
func FirstSlots(n int) []int {
	slots := make([]int, max(n, 0))
	for i := range slots {
		slots[i] = i
	}
	return slots
}

func abridged(digits string) string {
	if len(digits) > 20 {
		return digits[:20] + "…"
	}
	return digits
}

func oneALine(errs []error) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}
