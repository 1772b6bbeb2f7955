// SPDX-License-Identifier: Apache-2.0

// Package lazyregexp compiles the regular expressions of package variables when they are first
// used. An agent starts on every node in every run and uses few of its expressions. Compiling all
// of them took a fifth of the agent's start. The package is Go's own internal/lazyregexp
// (src/internal/lazyregexp, Go 1.26) with the methods that preflight calls.
//
// It accepts only constant expressions. Use regexp.Compile for others.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a [regexp.Regexp] that is compiled on first use. It is safe for concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// inTest makes tests compile all expressions at once, so that they find invalid ones.
var inTest = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")

// New works like regexp.MustCompile but compiles the expression when it is first used.
func New(expression string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
	if inTest {
		r.compiled()
	}
	return r
}

func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r *Regexp) ReplaceAllString(s, by string) string { return r.compiled().ReplaceAllString(s, by) }

func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, by)
}
