// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"preflight/internal/text"
	"slices"
	"strings"
	"sync"
	"time"
)

// The commands that run on a node. They are constants: values that differ from node to node are
// sent on stdin, so that no shell ever parses data.
var (
	//go:embed say.sh
	sayScript string
	//go:embed common.sh
	commonScript string
	//go:embed deliver.sh
	deliverScript string
	//go:embed clean.sh
	cleanScript string

	//go:embed outside.sh
	outsideScript string

	deliverCommand = wrap(sayScript + commonScript + deliverScript)
	cleanCommand   = wrap(sayScript + commonScript + cleanScript)
	// The same commands, run inside the ranks' container.
	deliverInside = wrap(sayScript+outsideScript, sayScript+commonScript+deliverScript)
	cleanInside   = wrap(sayScript+outsideScript, sayScript+commonScript+cleanScript)
)

// wrap returns a command that runs a script with arguments, which may be further scripts. Every
// login shell passes the command to /bin/sh unchanged: bash, dash, zsh, ksh, tcsh and fish agree
// about text in single quotes as long as it has no quote, backslash, exclamation mark or newline.
func wrap(script string, arguments ...string) string {
	command := "exec /bin/sh -c " + quoted(script)
	for i, argument := range arguments {
		if i == 0 {
			command += " preflight"
		}
		command += " " + quoted(argument)
	}
	return command
}

// quoted returns a script as one line, in single quotes.
func quoted(script string) string {
	var words []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			words = append(words, line)
		}
	}
	return "'" + strings.Join(words, " ") + "'"
}

// closeGrace is how long a command may take to end after it closed its stdout. An agent may take as
// long after its stdin was closed.
const closeGrace = time.Second

// command is one of preflight's commands that runs on a node. Only one goroutine at a time may call
// its methods, except abandon.
type command struct {
	host    string
	client  Connection
	process *Process
	stdin   io.WriteCloser
	ear     *ear // stdout reads through it
	stdout  *lineReader
	stderr  *Tail
}

// run starts a command on a connection. The command then owns the connection, even if it fails to
// start.
func run(client Connection, host, text string) (*command, *Error) {
	stderr := &Tail{Full: func() { client.Close() }}
	process, failure := client.Start(text, stderr)
	if failure != nil {
		client.Close()
		failure.Host = host
		return nil, failure
	}
	watched := &ear{in: process.Stdout, patience: headPatience}
	return &command{host: host, client: client, process: process,
		stdin: process.Stdin, ear: watched, stdout: newLineReader(watched), stderr: stderr}, nil
}

// exit says how a command ended, as far as the launching machine can tell.
type exit struct {
	Exit
	read   error  // why no further line came: io.EOF, io.ErrUnexpectedEOF, *tooMuch
	lost   error  // why the connection ended; nil while the connection is open
	stderr string // the end of the command's stderr, escaped
}

// collectExit returns how the command ended. err is the error with which reading its stdout failed.
// collectExit closes the connection.
func (c *command) collectExit(err error) exit {
	defer c.client.Close()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		c.client.Close()
	}
	late := time.AfterFunc(closeGrace, func() { c.client.Close() })
	defer late.Stop()
	e := exit{read: err, Exit: c.process.Wait()}
	if e.Missing && !c.client.Alive() {
		e.lost = c.client.Wait()
		if e.lost == nil {
			e.lost = io.EOF
		}
	}
	if c.stderr.spent() {
		e.read = &tooMuch{fmt.Sprintf("%d MiB of messages", maxTotal>>20)}
	}
	e.stderr = c.stderr.Text()
	return e
}

// LastMoment returns how long before the end of a wait the waiting side checks the node.
func LastMoment(left time.Duration) time.Duration { return min(left/4, time.Second) }

// watchdog closes the connection of a command that takes too long. Shortly before ctx's deadline,
// while there is time for an answer, it asks the node's server for a sign of life. If the server
// answers, the node's shell is stuck. If not, the node itself is frozen.
type watchdog struct {
	client  Connection
	timer   *time.Timer
	stop    func() bool
	lookout Lookout

	mu    sync.Mutex
	late  bool
	alive bool
}

func watch(ctx context.Context, client Connection) *watchdog {
	w := &watchdog{
		client:  client,
		stop:    context.AfterFunc(ctx, func() { client.Close() }),
		lookout: client.LookOut(ctx),
	}
	deadline, limited := ctx.Deadline()
	if !limited {
		return w
	}
	left := time.Until(deadline)
	w.timer = time.AfterFunc(left-LastMoment(left), func() {
		w.report(false)
		if client.Alive() {
			w.report(true)
			client.Close()
		}
	})
	return w
}

func (w *watchdog) report(alive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late, w.alive = true, alive
}

// verdict reports whether the time ran out, and whether the node was alive at that moment.
func (w *watchdog) verdict() (late, alive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late, w.alive
}

// dismiss ends the watch. It returns false if the watchdog has closed the connection or is about to
// close it.
func (w *watchdog) dismiss() bool {
	w.lookout.Dismiss()
	inTime := w.timer == nil || w.timer.Stop()
	return w.stop() && inTime
}

// Tail keeps the end of the text that a command writes to stderr.
type Tail struct {
	mu    sync.Mutex
	kept  []byte
	first []byte // the start of what kept has lost, where a program that dies says why
	total int
	Full  func() // called once if the command writes too much
}

const maxTail = 4 << 10

// ReadFrom reads everything from a reader, which [io.Copy] prefers to its own buffer. That buffer
// of 32 KiB per node would be most of the memory of an idle agent.
func (t *Tail) ReadFrom(from io.Reader) (total int64, err error) {
	part := make([]byte, 512)
	for {
		n, err := from.Read(part)
		total += int64(n)
		_, _ = t.Write(part[:n]) // never fails
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.total
	t.total += len(p)
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*maxTail { // moving the kept text for each line of a flood would take a minute
		if t.first == nil {
			t.first = bytes.Clone(t.kept[:256])
		}
		t.kept = append(t.kept[:0], lastOf(t.kept)...)
	}
	if before <= maxTotal && t.total > maxTotal {
		t.Full()
	}
	return len(p), nil
}

// lastOf returns the part of text that a tail keeps.
func lastOf(text []byte) []byte { return text[max(0, len(text)-maxTail):] }

// spent reports whether the command wrote more than it may write.
func (t *Tail) spent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total > maxTotal
}

// Text returns the first line and the kept text, escaped, with the lines joined by "; ".
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	kept := lastOf(t.kept)
	if first := append(t.first, t.kept...); len(first) > len(kept) { // the first line, and the last ones
		line, _, _ := bytes.Cut(first[:min(len(first), 256)], []byte("\n"))
		kept = slices.Concat(line, []byte("\n"), kept)
	}
	for line := range strings.Lines(string(kept)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, text.Escape(line))
		}
	}
	return strings.Join(lines, "; ")
}
