// SPDX-License-Identifier: Apache-2.0

// Package sandbox pastes lines as a person would, in a shell whose programs do what the real
// ones do with their arguments and nothing else, and tells which lines run what was data.
// Only tests import it.
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

// Class is one way in which data becomes code. Each would touch pwned, or have a program do so.
type Class struct {
	Name  string
	Evil  string
	Whole bool // stands alone, for it counts at the start of a word
}

// Classes are what no shell, program or terminal may be handed.
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

// In is a value with the class in it.
func (c Class) In(value string) string {
	if c.Whole {
		return c.Evil
	}
	return value + c.Evil
}

// Lines are lines to paste, each with where it came from: what is printed many times is pasted once.
type Lines struct {
	mutex sync.Mutex
	from  map[string]string
}

// Add takes the lines in which there is something of a class.
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

// Len is how many there are.
func (l *Lines) Len() int { return len(l.from) }

//go:embed programs.sh
var programs string

// together is how many lines one shell is handed: it is started anew for each such heap.
const together = 400

// Paste runs every line, and fails for those that run what was data.
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
		told, err := shell.Output() // a number for each line that ran data, then "done"
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
