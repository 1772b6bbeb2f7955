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

// scriptSize is up to which size a script is read for what it imports and calls.
const scriptSize = 1 << 20

var (
	// importLine is an import that is no part of a block, which may never run.
	importLine = lazyregexp.New(`^(?:import[ \t]+(.+)|from[ \t]+([\pL_][\w.]*)[ \t]+import\b.*)`)
	moduleName = lazyregexp.New(`^[\pL_][\w]*`)
	// quoted is a text of one line.
	quoted = lazyregexp.New(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`)
)

// elsewhere is what may have python look elsewhere for what is imported behind it, install
// it, or not get there.
var elsewhere = lazyregexp.New(`\bsys\.(path|modules|meta_path)|from\s+(sys|site|subprocess)\s+import|\b(site|importlib|subprocess|pip|findspark|pyximport|runpy)\.|rootutils|autoroot|\b(exit|exec|__import__)\(|SystemExit|\bos\.(_exit|exec|system|spawn|popen)`)

// imports are the packages that a script names at its top level, sorted, and in its own order
// those of them that python needs to find where it always looks. The text is scanned and never run: what else
// python would make of it does not matter.
func imports(script string, isBeside func(module string) bool) (names, needs []string) {
	var inText string // the quotes that end a text of several lines, "" outside of one
	movable := false  // what comes now may be found elsewhere
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

// isIn is whether a directory holds a module, or a directory of its name.
func isIn(dir string) func(module string) bool {
	return func(module string) bool {
		return slices.ContainsFunc([]string{"", ".py", ".pyc", ".so"}, func(suffix string) bool {
			_, err := os.Stat(filepath.Join(dir, module+suffix))
			return err == nil
		})
	}
}

// outsideTexts is what of a line is neither text nor comment, and what ends the text
// that is open behind it.
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

// The calls that make a group of gloo whatever accelerators there are, but in a comment:
// glooGroup beside another, and glooAlone where no other is named that may be meant for them.
// One that chooses ("nccl" if … else "gloo") is none.
var (
	glooGroup = lazyregexp.New(`(?m)^[^#\n]*(?:["'](?:\w+:\w+,)*cpu:gloo\b|\bnew_group\([^)#]*\bbackend\s*=\s*["']gloo["']\s*[,)])`)
	glooAlone = lazyregexp.New(`(?m)^[^#\n]*\binit_process_group\(\s*(?:backend\s*=\s*)?["']gloo["']\s*[,)]`)
)

// makesGloo is whether a script asks torch.distributed for a group of gloo by name; what
// it imports may do so as well. Nothing of its text is kept.
func makesGloo(text []byte) bool {
	return glooGroup.Match(text) || glooAlone.Match(text) && !bytes.Contains(text, []byte("nccl"))
}
