// SPDX-License-Identifier: Apache-2.0

// Package explain reads the logs of a failed launch and finds the cause, the check that would have
// found it before the launch, and the fix.
//
// The meaning of messages is data. causes.yaml holds the causes. signatures/ has one file for each
// family of programs. The files contain patterns for message texts, what each message proves, and
// where the program's source prints the message. The code itself contains no message. It removes
// what launchers and terminals add to lines and finds signatures in the rest. Then it decides which
// messages came first and which only followed.
//
// The package does not guess. A message without a signature has no cause, and a log passes only if
// it shows success and no line looks like a failure (signatures/alarm.yaml). A message after which the program can
// continue counts only if the log shows no success after the message. The package contacts no node
// and starts no program.
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

// Explain reads the logs of one job and reports why the job died. The job may have one log, or one
// log for each node or rank. The memory use does not grow with the size of the logs. If a log
// cannot be read to the end, the report lists that log and covers all the others.
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

// unpacked returns the text of a file that may be compressed with gzip, bzip2, xz or zstd, or
// encoded in UTF-16 with a byte order mark, as PowerShell writes it.
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

// asText returns the text of a file with this start, or an error if it is not text. If the start is
// empty or could not be read, the caller gets the error from the next read.
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

// unpackerOf returns the unpacker for a file with this start, nil if the file is not compressed.
func unpackerOf(start []byte) func(io.Reader) (io.Reader, error) {
	for magic, unpacker := range unpackers {
		if bytes.HasPrefix(start, []byte(magic)) {
			return unpacker
		}
	}
	return nil
}

// Sniffed is the number of bytes of a file that Readable needs.
const Sniffed = 4096

// tarMagic is the offset of the magic number in a tar archive (POSIX pax, ustar interchange
// format).
const tarMagic = 257

// unpackers maps the first bytes of a compressed format to its unpacker.
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"\x1f\x8b":     func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) },
	"BZh":          func(in io.Reader) (io.Reader, error) { return bzip2.NewReader(in), nil },
	"\xfd7zXZ\x00": func(in io.Reader) (io.Reader, error) { return xz.NewReader(in) },
	"\x28\xb5\x2f\xfd": func(in io.Reader) (io.Reader, error) {
		// Decode with one goroutine, which ends by itself, and with the window size that zstd
		// itself accepts without --long=31.
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	},
}

func wide(start []byte) bool {
	return bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff"))
}

// errFlightDump names the torch program that reads these dumps. torch's wheels contain the module
// of this command since 2.10.
//
// Source: torch 2.10, torch/distributed/flight_recorder/components/config_manager.py and loader.py.
var errFlightDump = errors.New("a dump of torch's flight recorder, which only torch's own program can read: put the pickled dumps of all ranks into one directory, " +
	"and run `torchfrtrace --prefix nccl_trace_rank_ DIRECTORY` (torch 2.10 or newer)")

// flightDump reports whether a file with this start is a dump of torch's flight recorder, as pickle
// or JSON.
func flightDump(start []byte) bool {
	if bytes.HasPrefix(start, []byte("\x80")) {
		return bytes.Contains(start, []byte("pg_config")) || bytes.Contains(start, []byte("pg_id"))
	}
	return bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) &&
		(bytes.Contains(start, []byte(`"pg_config"`)) || bytes.Contains(start, []byte(`"collective_seq_id"`)))
}

// Readable reports whether a file with this start can be a log, or a dump of torch's flight
// recorder, for which explain prints how to read it. Logs can contain NUL bytes: NFS leaves NUL
// bytes when two nodes write to one file.
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

// Schema is the version of the JSON report. New releases only add fields.
const Schema = 1

// Report is the result of reading the logs of a launch.
type Report struct {
	Schema   int `json:"schema"`
	ExitCode int `json:"exit_code"` // 0 the job ran and nothing failed, 1 a cause is known, 2 no cause is known and something failed or no success is shown
	// Causes lists the reasons why the job died, the root cause first. It is empty if nothing
	// failed or no cause is known.
	Causes []Finding `json:"causes"`
	// Program is the program's own failure, usually an exception without a signature. It is nil if
	// another failure came first.
	Program *Finding `json:"program,omitempty"`
	// Unexplained holds lines that look like a failure, the earliest first. It is nil if a cause or
	// the program's own failure explains these lines.
	Unexplained *Finding `json:"unexplained,omitempty"`
	// Consequences lists the failures that followed from the causes, or from an event that the logs
	// do not show.
	Consequences []Finding `json:"consequences"`
	Noise        []Finding `json:"noise"`
	// Timeline lists the first failure of each rank or node, the earliest first. It is empty if
	// only one rank or node failed.
	Timeline []Death `json:"timeline,omitempty"`
	// Network lists what NCCL logged about its network, with one entry for each node.
	Network []Network `json:"network,omitempty"`
	// Unread lists the logs that could not be read to the end.
	Unread []Unread `json:"unread,omitempty"`
	// Empty lists the logs without any line.
	Empty []string `json:"empty,omitempty"`
	// Nameless counts messages whose rank or node was not recorded. Either too many ranks or nodes
	// logged the message, or a single rank or node logged the message too often.
	Nameless int `json:"nameless,omitempty"`
	Files    int `json:"files"`
	Lines    int `json:"lines"`
}

// Unread is a log that could not be read to the end, and the reason.
type Unread struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	Whole  bool   `json:"whole,omitempty"` // nothing of the log was read
}

// Finding is one cause, or one message without a cause, with the log lines that show it.
type Finding struct {
	Cause    string     `json:"cause,omitempty"` // "" for the summaries of launchers and for noise
	Check    string     `json:"check,omitempty"` // the check that finds the cause before the launch
	Checks   []string   `json:"checks,omitempty"`
	Title    string     `json:"title,omitempty"` // title of the cause
	Summary  string     `json:"summary"`         // what this log shows about the cause
	Nodes    []string   `json:"nodes,omitempty"`
	Ranks    []string   `json:"ranks,omitempty"`
	Count    int        `json:"count"` // number of log lines
	Evidence []Evidence `json:"evidence"`
	Fix      []string   `json:"fix,omitempty"`
	Where    []string   `json:"where,omitempty"`   // what to insert for the placeholders in Fix, such as NODE
	Command  string     `json:"command,omitempty"` // command to run before the next launch
	// MasterAddr and MasterPort are the master's address and port according to the messages, so that
	// a check can use them. They are "" and 0 if unknown.
	MasterAddr string `json:"master_addr,omitempty"`
	MasterPort int    `json:"master_port,omitempty"`
	// Hearsay means that only other ranks report the cause. The affected rank or node does not
	// report it.
	Hearsay bool `json:"hearsay,omitempty"`
}

// Evidence is one line of a log.
type Evidence struct {
	File string `json:"file"`
	Line int    `json:"line"` // the first line is 1
	Node string `json:"node,omitempty"`
	Rank string `json:"rank,omitempty"`
	Time string `json:"time,omitempty"` // the logged time, from the month to the fraction of a second
	Text string `json:"text"`
	// More lists the further lines of an exception.
	More []string `json:"more,omitempty"`
}

// Death is the first failure of one rank or node.
type Death struct {
	Node  string `json:"node,omitempty"`
	Rank  string `json:"rank,omitempty"`
	Time  string `json:"time,omitempty"`
	Cause string `json:"cause,omitempty"` // "" for an exception of the program
	File  string `json:"file"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
}
