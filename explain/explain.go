// SPDX-License-Identifier: Apache-2.0

// Package explain reads the wreck: from the log of a launch that died to the
// cause, the check that would have said so before, and the fix.
//
// What messages mean is data: causes.yaml holds the causes, signatures/ one file
// a family of programs, with patterns over message text, what they prove and
// where the program's source says so. The code knows nothing of any message. It
// takes off what launchers and terminals put around lines, finds signatures in
// what is left, and decides which of them came first and which only followed.
//
// The package refuses to guess: what no signature knows is left unblamed, and passes
// only where nothing of it looks like a failure (signatures/alarm.yaml). A message that
// the program itself shrugs off counts only where nothing shows that all went well. It
// reaches no node and runs nothing.
package explain

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"preflight/internal/secret"
)

// Source is one log.
type Source struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Explain reads the logs of one job, in one file or one a node or rank, and says what it died of. Memory does
// not grow with the size of the logs. What cannot be read to its end is named in the report, which is of all the rest.
func (c *Catalogue) Explain(sources []Source) Report {
	seen := newTally(len(sources))
	for i, source := range sources {
		seen.sources = append(seen.sources, source.Name)
		before := seen.lines
		if err := c.read(source, i, seen); err != nil {
			seen.unread = append(seen.unread, Unread{source.Name, err.Error(), seen.lines == before})
		} else if seen.lines == before {
			seen.empty = append(seen.empty, source.Name)
		}
	}
	report := c.judge(seen)
	secret.Within(&report)
	return report
}

func (c *Catalogue) read(source Source, number int, seen *tally) error {
	file, err := source.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := unpacked(file)
	if err != nil {
		return err
	}
	if start, _ := text.Peek(Sniffed); flightDump(start) {
		return errFlightDump
	}
	m := c.matcher(number, seen)
	lines, err := c.index.scan(text, m.take)
	seen.lines += lines
	m.end()
	return err
}

// unpacked is the text of a file that may be compressed by gzip, bzip2, xz or zstd, or be in
// UTF-16 with a byte order mark, as PowerShell writes it.
func unpacked(file io.Reader) (*bufio.Reader, error) {
	in, start := sniff(file)
	unpacker := unpackerOf(start)
	if unpacker == nil {
		return asText(in, start, "the file")
	}
	inside, err := unpacker(in)
	if err != nil {
		return nil, err
	}
	in, start = sniff(inside)
	if unpackerOf(start) != nil {
		return nil, errors.New("the file is compressed twice: unpack it until it is text")
	}
	return asText(in, start, "the compressed content")
}

func sniff(file io.Reader) (in *bufio.Reader, start []byte) {
	in = bufio.NewReaderSize(file, Sniffed)
	start, _ = in.Peek(Sniffed)
	return in, start
}

// asText is the text of a file which begins so, or why there is none. A start that cannot be read,
// or is nothing, is left to whoever reads on.
func asText(in *bufio.Reader, start []byte, what string) (*bufio.Reader, error) {
	switch {
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return nil, fmt.Errorf("%s is an archive: unpack it, for example with `unzip FILE`, and give explain the directory", what)
	case len(start) > tarMagic && bytes.HasPrefix(start[tarMagic:], []byte("ustar")):
		return nil, fmt.Errorf("%s is an archive: unpack it, for example with `tar -xf FILE`, and give explain the directory", what)
	case !Readable(start):
		return nil, fmt.Errorf("%s is not text", what)
	case wide(start):
		return bufio.NewReaderSize(transform.NewReader(in, unicode.BOMOverride(unicode.UTF8.NewDecoder())), Sniffed), nil
	}
	return in, nil
}

// unpackerOf is what unpacks a file that begins so, nil where it is not compressed.
func unpackerOf(start []byte) func(io.Reader) (io.Reader, error) {
	for magic, unpacker := range unpackers {
		if bytes.HasPrefix(start, []byte(magic)) {
			return unpacker
		}
	}
	return nil
}

// Sniffed is how many bytes of a file are enough for Readable.
const Sniffed = 4096

// tarMagic is where a tar archive says that it is one (POSIX pax, ustar interchange format).
const tarMagic = 257

// unpackers are by what files of their format begin with.
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"\x1f\x8b":     func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) },
	"BZh":          func(in io.Reader) (io.Reader, error) { return bzip2.NewReader(in), nil },
	"\xfd7zXZ\x00": func(in io.Reader) (io.Reader, error) { return xz.NewReader(in) },
	"\x28\xb5\x2f\xfd": func(in io.Reader) (io.Reader, error) {
		// One goroutine, which ends by itself, and the window that zstd itself reads without --long=31.
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	},
}

func wide(start []byte) bool {
	return bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff"))
}

// errFlightDump names the program of torch that reads these dumps. The module of its command is in torch's
// wheels from 2.10 on.
//
// Source: torch 2.10, torch/distributed/flight_recorder/components/config_manager.py and loader.py.
var errFlightDump = errors.New("a dump of torch's flight recorder, which only torch's own program can read: put the pickled dumps of all ranks into one directory, " +
	"and run `torchfrtrace --prefix nccl_trace_rank_ DIRECTORY` (torch 2.10 or newer)")

// flightDump reports whether a file that begins so is what torch's flight recorder wrote, as a pickle or as JSON.
func flightDump(start []byte) bool {
	if bytes.HasPrefix(start, []byte("\x80")) {
		return bytes.Contains(start, []byte("pg_config")) || bytes.Contains(start, []byte("pg_id"))
	}
	return bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) &&
		(bytes.Contains(start, []byte(`"pg_config"`)) || bytes.Contains(start, []byte(`"collective_seq_id"`)))
}

// Readable reports whether a file that begins so can be a log, or a dump of torch's flight recorder, of which
// explain says how to read it. Some NULs are in logs: NFS leaves them where two nodes write one file.
func Readable(start []byte) bool {
	if unpackerOf(start) != nil || wide(start) || flightDump(start) || len(start) == 0 {
		return true
	}
	text := bytes.Trim(start, "\x00")
	controls := 0
	for _, c := range text {
		if c < ' ' && !bytes.ContainsRune([]byte("\t\n\r\x1b\b\f\a"), rune(c)) {
			controls++
		}
	}
	return len(text) > 0 && controls <= len(start)/20
}

// Schema is the version of the JSON report; fields are only ever added.
const Schema = 1

// Report is what logs tell of a launch.
type Report struct {
	Schema   int `json:"schema"`
	ExitCode int `json:"exit_code"` // 0 nothing failed, 1 a cause is known, 2 something failed and nothing says why
	// Causes are what the job died of, the root cause first; none where nothing is
	// wrong or known.
	Causes []Finding `json:"causes"`
	// Program is the program's own failure, where it came before all others: mostly an
	// exception that no signature knows.
	Program *Finding `json:"program,omitempty"`
	// Unexplained are lines that look like a failure, the first one first, where no cause and
	// no program's own failure explains them.
	Unexplained *Finding `json:"unexplained,omitempty"`
	// Consequences followed from the causes, or from what the logs do not show.
	Consequences []Finding `json:"consequences"`
	Noise        []Finding `json:"noise"`
	// Timeline is when each rank or node first failed, the first one first; only
	// where there are several.
	Timeline []Death `json:"timeline,omitempty"`
	// Network is what NCCL said it uses, node by node.
	Network []Network `json:"network,omitempty"`
	// Unread are the logs that could not be read to their end.
	Unread []Unread `json:"unread,omitempty"`
	// Empty are the logs with no line in them.
	Empty []string `json:"empty,omitempty"`
	// Nameless are messages that were counted without who said them: more ranks or nodes
	// said so, or one of them more often, than is kept.
	Nameless int `json:"nameless,omitempty"`
	Files    int `json:"files"`
	Lines    int `json:"lines"`
}

// Unread is a log that could not be read to its end, and why.
type Unread struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	Whole  bool   `json:"whole,omitempty"` // nothing of it was read
}

// Finding is one cause, or one message that is none, with where it was read.
type Finding struct {
	Cause    string     `json:"cause,omitempty"` // "" for launchers' summaries and noise
	Check    string     `json:"check,omitempty"` // that says so before the launch
	Checks   []string   `json:"checks,omitempty"`
	Title    string     `json:"title,omitempty"` // of the cause
	Summary  string     `json:"summary"`         // what this log tells of it
	Nodes    []string   `json:"nodes,omitempty"`
	Ranks    []string   `json:"ranks,omitempty"`
	Count    int        `json:"count"` // of lines
	Evidence []Evidence `json:"evidence"`
	Fix      []string   `json:"fix,omitempty"`
	Where    []string   `json:"where,omitempty"`   // what to put for the words in Fix that stand for what the log does not tell
	Command  string     `json:"command,omitempty"` // what to run before the next launch
	// MasterPort is the port of the master that the messages tell, for a check of it.
	MasterPort int `json:"master_port,omitempty"`
	// Hearsay is a cause that only others than its victim report.
	Hearsay bool `json:"hearsay,omitempty"`
}

// Evidence is one line of a log.
type Evidence struct {
	File string `json:"file"`
	Line int    `json:"line"` // 1 is the first
	Node string `json:"node,omitempty"`
	Rank string `json:"rank,omitempty"`
	Time string `json:"time,omitempty"` // month and day to fraction of a second, as logged
	Text string `json:"text"`
	// More are the lines in which an exception goes on.
	More []string `json:"more,omitempty"`
}

// Death is the first failure of one rank or node.
type Death struct {
	Node  string `json:"node,omitempty"`
	Rank  string `json:"rank,omitempty"`
	Time  string `json:"time,omitempty"`
	Cause string `json:"cause,omitempty"` // "" for the program's own exception
	File  string `json:"file"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
}
