// SPDX-License-Identifier: Apache-2.0

// Package usage makes the errors for mistakes of users. Each error can have a hint about what to
// do.
//
// It does not print, and knows no flags or files.
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

// Error is an error with a hint about what to do, which is printed on its own line.
type Error struct {
	error
	Hint string
}

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.error }

// Words is a text from preflight itself, which [WithHint] does not quote.
type Words string

// WithHint adds a hint to an error. Users paste hints into a shell, so WithHint quotes all string
// arguments except [Words].
func WithHint(err error, format string, args ...any) error {
	for i, arg := range args {
		if line, is := arg.(string); is {
			args[i] = text.Quote(line)
		}
	}
	return &Error{err, fmt.Sprintf(format, args...)}
}

// Reason returns the system's reason without the path, which the caller has already named.
func Reason(err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		return in.Err
	}
	if in, ok := errors.AsType[*os.LinkError](err); ok {
		return in.Err
	}
	return err
}

// Among returns an error if value is not one of the choices.
func Among(value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s%s", value, strings.Join(choices, ", "), Meant(value, choices))
}

// Nearest returns the end of an error message: the word that the user likely meant, or all words if
// there are only a few.
func Nearest(word string, among []string) string {
	if near := Meant(word, among); near != "" {
		return near
	}
	if len(among) > 0 && len(among) <= 8 {
		return ": there are " + strings.Join(among, ", ")
	}
	return ""
}

// Meant returns the end of an error message with the word that the user likely meant, "" if none is
// near.
func Meant(word string, among []string) string {
	return text.DidYouMean(text.Meant(word, among))
}
