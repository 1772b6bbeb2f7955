// SPDX-License-Identifier: Apache-2.0

// Package usage words what a user got wrong, each with the way out.
//
// It refuses to print, and to know any flag or file.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"preflight/internal/text"
)

// Error is an error with the way out on a line of its own.
type Error struct {
	error
	Hint string
}

// Unwrap is the error without its hint.
func (e *Error) Unwrap() error { return e.error }

// Words are a program's own, which stand in a hint as they are.
type Words string

// WithHint adds the way out to an error. Much of it is pasted, so that every text among the
// arguments is quoted for a shell, but [Words].
func WithHint(err error, format string, args ...any) error {
	for i, arg := range args {
		if line, is := arg.(string); is {
			args[i] = text.Quote(line)
		}
	}
	return &Error{err, fmt.Sprintf(format, args...)}
}

// Reason is the system's own word for what went wrong, without the path that whoever
// says it has named already.
func Reason(err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		return in.Err
	}
	if in, ok := errors.AsType[*os.LinkError](err); ok {
		return in.Err
	}
	return err
}

// Among refuses a value that is none of the allowed ones.
func Among(value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s%s", value, strings.Join(choices, ", "), Meant(value, choices))
}

// Nearest names the word that was likely meant, or all where they are few, with what leads
// to it: the rest of a sentence.
func Nearest(word string, among []string) string {
	if near := Meant(word, among); near != "" {
		return near
	}
	if len(among) > 0 && len(among) <= 8 {
		return ": there are " + strings.Join(among, ", ")
	}
	return ""
}

// Meant asks for the word that was likely meant, as the rest of a sentence; "" where none is near.
func Meant(word string, among []string) string {
	return text.DidYouMean(text.Meant(word, among))
}
