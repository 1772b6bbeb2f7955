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
	"errors"
	"io"

	"preflight/checks/fix"
	"preflight/internal/logtext"
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
	in := bufio.NewReaderSize(file, Sniffed)
	if start, _ := in.Peek(Sniffed); flightDump(start) {
		return errFlightDump
	}
	text, err := logtext.Open(in)
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

// errFlightDump names the program that reads these dumps. torch's wheels contain it since 2.10.
//
// Source: torch 2.10, torch/distributed/flight_recorder/components/config_manager.py and loader.py.
var errFlightDump = errors.New("a dump of torch's flight recorder, which only torch's own program can read: put the pickled dumps of all ranks into one directory, " +
	"and run `torchfrtrace DIRECTORY` (torch 2.10 or newer)")

// flightDump reports whether a file with this start is a dump of torch's flight recorder, as pickle
// or JSON.
func flightDump(start []byte) bool {
	if bytes.HasPrefix(start, []byte("\x80")) {
		return bytes.Contains(start, []byte("pg_config")) || bytes.Contains(start, []byte("pg_id"))
	}
	return bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) &&
		(bytes.Contains(start, []byte(`"pg_config"`)) || bytes.Contains(start, []byte(`"collective_seq_id"`)))
}

// Sniffed is the number of bytes of a file that Readable needs.
const Sniffed = logtext.Sniffed

// Readable reports whether a file with this start can be a log, or a dump of torch's flight
// recorder, for which explain prints how to read it.
func Readable(start []byte) bool { return flightDump(start) || logtext.Readable(start) }

// Schema is the version of the JSON report. New releases only add fields.
const Schema = 1

// Report is the result of reading the logs of a launch.
type Report struct {
	Schema   int `json:"schema"`
	ExitCode int `json:"exit_code"` // 0 the job ran and nothing failed, 1 a cause is known, 2 no cause is known and something failed or no success is shown
	// Causes lists the reasons why the job died, the root cause first. It is empty if nothing
	// failed or no cause is known.
	Causes []Finding `json:"causes"`
	// Program is the program's or the launcher's own failure, usually an exception without a
	// signature. It is nil if another failure came first.
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
	Roles    []fix.Role `json:"fix_roles,omitempty"`    // the role of each line of Fix, in the same order
	Complete []bool     `json:"fix_complete,omitempty"` // whether each line of Fix can be pasted as it is
	Where    []string   `json:"where,omitempty"`        // what to insert for the placeholders in Fix, such as NODE
	Command  string     `json:"command,omitempty"`      // command to run before the next launch
	// MasterAddr and MasterPort are the master's address and port according to the messages, so that
	// a check can use them. They are "" and 0 if unknown.
	MasterAddr string `json:"master_addr,omitempty"`
	MasterPort int    `json:"master_port,omitempty"`
	// Launcher is the launcher whose own code failed, such as torchrun. It is "" for other findings.
	Launcher string `json:"launcher,omitempty"`
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
