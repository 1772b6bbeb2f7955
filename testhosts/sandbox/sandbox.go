// SPDX-License-Identifier: Apache-2.0

// Package sandbox pastes lines into a shell, as a person would. The programs that the shell runs
// only treat their arguments as the real programs do. The package reports the lines in which data
// was run as code. Only tests import it.
package sandbox

import (
	_ "embed"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// Class is one way in which data becomes code. If Evil is run as code, it creates the file pwned.
type Class struct {
	Name  string
	Evil  string
	Whole bool // Evil is the whole value, because it works only at the start of a word
}

// Classes lists texts that must never reach a shell, a program or a terminal unescaped.
var Classes = []Class{
	{Name: "command substitution", Evil: "$(touch${IFS}pwned)"},
	{Name: "backquotes", Evil: "`touch${IFS}pwned`"},
	{Name: "parameter expansion", Evil: "${x:=$(touch pwned)}"},
	{Name: "end of a command", Evil: ";touch pwned;"},
	{Name: "pipe", Evil: "|touch${IFS}pwned&"},
	{Name: "single quote", Evil: "';touch pwned;'"},
	{Name: "double quote", Evil: "\";touch pwned;\""},
	{Name: "quote in a quote", Evil: `'"'"';touch pwned;'"'"'`},
	{Name: "escaped quote", Evil: `\';touch pwned;\"`},
	{Name: "line break", Evil: "\ntouch pwned\n"},
	{Name: "end of a here-document", Evil: "\nEOF\ntouch pwned\n"},
	{Name: "paste without brackets", Evil: "\x1b[201~touch pwned\r"},
	{Name: "option of ssh", Evil: "-oProxyCommand=touch${IFS}pwned", Whole: true},
	{Name: "option of ssh behind an account", Evil: "me@-oProxyCommand=touch${IFS}pwned", Whole: true},
	{Name: "command of an editor", Evil: "+!touch${IFS}pwned", Whole: true},
	{Name: "command of sed", Evil: "/;1e touch pwned;/"},
	{Name: "statement of python", Evil: ";__import__('os').system('touch${IFS}pwned')"},
	{Name: "source of a package", Evil: " @ https://pwned/x.whl"},
	{Name: "substitution of a shell with globs", Evil: "(e:touch${IFS}pwned:)"},
}

// In returns the value with Evil at its end, or Evil alone if the class is Whole.
func (c Class) In(value string) string {
	if c.Whole {
		return c.Evil
	}
	return value + c.Evil
}

// Lines holds lines to paste, each with its origins. A line that occurs many times is pasted once.
type Lines struct {
	mutex sync.Mutex
	from  map[string]string
}

// Add adds the lines that contain the text of a class.
func (l *Lines) Add(from string, lines ...string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.from == nil {
		l.from = map[string]string{}
	}
	for _, line := range lines {
		if _, known := l.from[line]; !known && strings.Contains(line, "pwned") {
			l.from[line] = from
		}
	}
}

// Len returns the number of lines.
func (l *Lines) Len() int { return len(l.from) }

//go:embed programs.sh
var programs string

// together is the maximum number of lines that one shell runs. Each batch of lines gets a new
// shell.
const together = 400

// Paste runs every line, and fails the test for lines that run data as code.
func (l *Lines) Paste(t testing.TB) {
	t.Helper()
	lines := slices.Sorted(maps.Keys(l.from))
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: a terminal does not take this as it is: %q", l.from[line], line)
		}
	}
	for heap := range slices.Chunk(lines, together) {
		shell := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", programs, "bash"}, heap...)...)
		home := t.TempDir()
		shell.Dir, shell.Env = home, []string{"HOME=" + home}
		told, err := shell.Output() // prints the number of each line that ran data as code, then "done"
		numbers := strings.Fields(string(told))
		if len(numbers) == 0 || numbers[len(numbers)-1] != "done" {
			t.Fatalf("the shell ended before all lines were pasted (%v), behind %q", err, numbers)
		}
		for _, number := range slices.Compact(numbers[:len(numbers)-1]) {
			i, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("%s: data runs where this is pasted: %s", l.from[heap[i-1]], heap[i-1])
		}
	}
}
