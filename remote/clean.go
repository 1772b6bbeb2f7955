// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"preflight/internal/text"
	"strings"
	"time"
)

// Clean removes all of preflight's agents from a node, from all places where a delivery may have
// put one. It also removes the directories that are empty afterwards. It returns the removed paths,
// escaped. Clean also removes builds that are running, which does not affect the running processes.
//
// The error is an *Error if the node could not be reached. Otherwise the error names what could not
// be removed. The Trace is never nil.
func (c *Client) Clean(ctx context.Context, name string) (removed []string, trace *Trace, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	client, trace, err := c.carrier.Dial(ctx, name)
	if err != nil {
		return nil, trace, err
	}
	dog := watch(ctx, client)
	defer dog.dismiss()
	began := time.Now()
	s := &cleaning{ending: ending{host: name, entrance: c.entrance(name)}}
	trace.Inside = s.words
	failure := s.run(client)
	if late := s.overdue(ctx, dog, "", began); failure != nil && late != nil {
		failure = late
	}
	if failure != nil {
		return s.removed, trace, failure
	}
	if len(s.kept) > 0 {
		return s.removed, trace, fmt.Errorf("%s: could not remove everything: %s", name, strings.Join(s.kept, "; "))
	}
	return s.removed, trace, nil
}

// cleaning is one run of clean.sh. The script's lines start with the marker and a verb:
//
//	shell           the script runs
//	removed PATH
//	kept WHY        it could not remove a file, with rm's message
//	done
type cleaning struct {
	ending
	removed, kept []string
}

// run runs clean.sh on the node at the other end of a connection, and closes the connection.
func (s *cleaning) run(client Connection) *Error {
	raw, input := s.commandFor(cleanCommand, cleanInside)
	command, failure := run(client, s.host, raw)
	if failure != nil {
		return failure
	}
	s.runs = true
	_, _ = io.WriteString(command.stdin, input) // a failure shows up in the next read
	done := false
	for {
		line, err := command.stdout.next()
		if err != nil {
			s.exit = command.collectExit(err)
			s.noise = command.stdout.noise.kept()
			if done && errors.Is(err, io.EOF) {
				return nil
			}
			return s.explain()
		}
		verb, rest, _ := strings.Cut(string(line), " ")
		switch verb {
		case "shell", "enters", "absent":
			s.spoke = true
			s.handleLine(verb)
			s.acknowledged = s.entered // clean.sh reads nothing
		case "removed":
			s.removed = append(s.removed, text.Escape(rest))
		case "kept":
			s.kept = append(s.kept, text.Escape(rest))
		case "done":
			done = true
		default:
			client.Close()
			return s.garbage(line)
		}
	}
}
