// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/internal/lazyregexp"
)

// scriptSize is the largest script whose imports and calls are read, in bytes.
const scriptSize = 1 << 20

var (
	// importLine matches an import that is not inside a block. An import inside a block might never
	// run.
	importLine = lazyregexp.New(`^(?:import[ \t]+(.+)|from[ \t]+([\pL_][\w.]*)[ \t]+import\b.*)`)
	moduleName = lazyregexp.New(`^[\pL_][\w]*`)
	// quoted matches a string literal on one line.
	quoted = lazyregexp.New(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`)
)

// elsewhere matches code that affects the imports after it: code that may change where Python finds
// modules, install a package, or end the script.
var elsewhere = lazyregexp.New(`\bsys\.(path|modules|meta_path)|from\s+(sys|site|subprocess)\s+import|\b(site|importlib|subprocess|pip|findspark|pyximport|runpy)\.|rootutils|autoroot|\b(exit|exec|__import__)\(|SystemExit|\bos\.(_exit|exec|system|spawn|popen)`)

// imports returns two lists of packages that a script imports at its top level. names has all of
// them, sorted. needs has those that Python must find in its usual places, in the script's order.
// imports scans the text and never runs it, so the text does not have to be valid Python.
func imports(script string, isBeside func(module string) bool) (names, needs []string) {
	var inText string // the quotes that end the current multi-line string, "" outside of strings
	movable := false  // from here on, imports may be found elsewhere
	script = strings.ReplaceAll(strings.TrimPrefix(script, "\ufeff"), "\\\n", " ")
	for line := range strings.Lines(script) {
		if inText, line = outsideTexts(inText, strings.TrimRight(line, "\r\n")); line == "" {
			continue
		}
		movable = movable || elsewhere.MatchString(line)
		for _, statement := range strings.Split(line, ";") {
			found := importLine.FindStringSubmatch(strings.TrimPrefix(statement, " "))
			if found == nil || strings.HasPrefix(line, " ") {
				continue
			}
			for _, module := range strings.Split(cmp.Or(found[1], found[2]), ",") {
				name := moduleName.FindString(strings.TrimSpace(module))
				if name == "" || slices.Contains(names, name) {
					continue
				}
				names = append(names, name)
				if movable = movable || isBeside(name); !movable {
					needs = append(needs, name)
				}
			}
		}
	}
	slices.Sort(names)
	return names, needs
}

// isIn returns a function that reports whether a directory contains a module, or a directory with
// the module's name.
func isIn(dir string) func(module string) bool {
	return func(module string) bool {
		return slices.ContainsFunc([]string{"", ".py", ".pyc", ".so"}, func(suffix string) bool {
			_, err := os.Stat(filepath.Join(dir, module+suffix))
			return err == nil
		})
	}
}

// outsideTexts returns the part of a line that is neither string nor comment. It also returns the
// quotes that would end a string that is still open.
func outsideTexts(inText, line string) (open, code string) {
	for {
		if inText != "" {
			end := strings.Index(line, inText)
			if end < 0 {
				return inText, code
			}
			line, inText = line[end+3:], ""
		}
		short := quoted.FindStringIndex(line)
		long := -1
		for _, quotes := range []string{`"""`, "'''"} {
			if at := strings.Index(line, quotes); at >= 0 && (long < 0 || at < long) {
				long, inText = at, quotes
			}
		}
		comment := strings.Index(line, "#")
		switch {
		case comment >= 0 && (long < 0 || comment < long) && (short == nil || comment < short[0]):
			return "", code + line[:comment]
		case long >= 0 && (short == nil || long <= short[0]):
			code += line[:long]
			line = line[long+3:]
		case short != nil:
			code += line[:short[0]] + `""`
			line, inText = line[short[1]:], ""
		default:
			return "", code + line
		}
	}
}

// These expressions match calls outside comments that create a gloo group whatever accelerators the
// machine has. glooGroup matches a call that creates the group next to another group. glooAlone
// matches one that names no other backend. A call that chooses ("nccl" if … else "gloo") does not
// match.
var (
	glooGroup = lazyregexp.New(`(?m)^[^#\n]*(?:["'](?:\w+:\w+,)*cpu:gloo\b|\bnew_group\([^)#]*\bbackend\s*=\s*["']gloo["']\s*[,)])`)
	glooAlone = lazyregexp.New(`(?m)^[^#\n]*\binit_process_group\(\s*(?:backend\s*=\s*)?["']gloo["']\s*[,)]`)
)

// makesGloo reports whether a script asks torch.distributed for a gloo group by name. The script's
// imports may do so as well. makesGloo keeps nothing of the script's text.
func makesGloo(text []byte) bool {
	return glooGroup.Match(text) || glooAlone.Match(text) && !bytes.Contains(text, []byte("nccl"))
}
