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
	// importLine matches an import that is not inside a block, which might never run.
	importLine = lazyregexp.New(`^(?:import[ \t]+(.+)|from[ \t]+([\pL_][\w.]*)[ \t]+import\b.*)`)
	moduleName = lazyregexp.New(`^[\pL_][\w]*`)
	// quoted matches a string on one line.
	quoted = lazyregexp.New(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`)
)

// elsewhere matches code that may change where Python finds later imports, install a package, or
// end the script before them.
var elsewhere = lazyregexp.New(`\bsys\.(path|modules|meta_path)|from\s+(sys|site|subprocess)\s+import|\b(site|importlib|subprocess|pip|findspark|pyximport|runpy)\.|rootutils|autoroot|\b(exit|exec|__import__)\(|SystemExit|\bos\.(_exit|exec|system|spawn|popen)`)

// imports returns the packages that a script imports at its top level, sorted, and in the script's
// order those that Python must find in its usual places. The text is scanned and never run; it does
// not matter what else Python would make of it.
func imports(script string, isBeside func(module string) bool) (names, needs []string) {
	var inText string // the quotes that end a multi-line string, "" outside of one
	movable := false  // later imports may be found elsewhere
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

// isIn returns a function that reports whether a directory has a module, or a directory of its
// name.
func isIn(dir string) func(module string) bool {
	return func(module string) bool {
		return slices.ContainsFunc([]string{"", ".py", ".pyc", ".so"}, func(suffix string) bool {
			_, err := os.Stat(filepath.Join(dir, module+suffix))
			return err == nil
		})
	}
}

// outsideTexts returns the part of a line that is neither string nor comment, and the quotes that
// end a string that is still open.
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

// Calls outside comments that create a gloo group whatever accelerators there are: glooGroup next
// to another group, and glooAlone if no other backend is named. A call that chooses ("nccl" if …
// else "gloo") does not match.
var (
	glooGroup = lazyregexp.New(`(?m)^[^#\n]*(?:["'](?:\w+:\w+,)*cpu:gloo\b|\bnew_group\([^)#]*\bbackend\s*=\s*["']gloo["']\s*[,)])`)
	glooAlone = lazyregexp.New(`(?m)^[^#\n]*\binit_process_group\(\s*(?:backend\s*=\s*)?["']gloo["']\s*[,)]`)
)

// makesGloo reports whether a script asks torch.distributed for a gloo group by name; its imports
// may do so as well. Nothing of its text is kept.
func makesGloo(text []byte) bool {
	return glooGroup.Match(text) || glooAlone.Match(text) && !bytes.Contains(text, []byte("nccl"))
}
