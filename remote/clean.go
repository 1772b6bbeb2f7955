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

// Clean removes every binary of ours from a node, in all places a delivery may
// have put them, and the directories that are empty then. It returns the paths
// it removed, escaped. Builds that run are removed too; running processes do
// not mind.
//
// The error is an *Error when the node could not be reached, and otherwise names
// what could not be removed. The Trace is never nil.
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

// cleaning is one run of clean.sh. Its lines bear the marker and begin with a verb:
//
//	shell           it runs
//	removed PATH
//	kept WHY        it could not remove a file, in the words of rm
//	done
type cleaning struct {
	ending
	removed, kept []string
}

// run sweeps the node at the other end of a connection, and closes it.
func (s *cleaning) run(client Connection) *Error {
	raw, told := s.of(cleanCommand, cleanInside)
	command, failure := run(client, s.host, raw)
	if failure != nil {
		return failure
	}
	s.runs = true
	_, _ = io.WriteString(command.stdin, told) // what is read next says that it did not arrive
	done := false
	for {
		line, err := command.stdout.next()
		if err != nil {
			s.exit = command.leave(err)
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
			s.heard(verb)
			s.acknowledged = s.entered // it reads nothing
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
