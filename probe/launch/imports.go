// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
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

var (
	// readsVariable matches a variable that must be set, and what comes next.
	readsVariable = lazyregexp.New(`\benviron\[[ \t]*["'](\w+)["'][ \t]*\][ \t]*(=?=?)`)
	// guards matches code that makes it doubtful whether the line is run, or whether the variable is
	// still unset.
	guards = lazyregexp.New(`\bin (os\.)?environ|\bif\b|\bor\b|\band\b|\blambda\b|\btry\b`)
	// setsVariables matches code that may set any variable.
	setsVariables = lazyregexp.New(`dotenv|environ\.update|\bputenv\b|environ *= `)
	setsVariable  = lazyregexp.New(`\b(?:environ\.setdefault|getenv|environ\.get)\([ \t]*["'](\w+)["']|["'](\w+)["'][ \t]+(?:not[ \t]+)?in[ \t]+(?:os\.)?environ`)
)

// unset returns the variables that a script reads with os.environ["NAME"] and that are not set. It
// leaves out variables that the script itself sets or treats as optional.
func unset(script string, lookup func(string) (string, bool)) (all []facts.Unset) {
	if !strings.Contains(script, "environ[") || setsVariables.MatchString(script) {
		return nil
	}
	var optional []string
	for _, found := range setsVariable.FindAllStringSubmatch(script, -1) {
		optional = append(optional, found[1], found[2])
	}
	var inText string
	movable := false
	for line := range strings.Lines(script) {
		var code string
		wasInText := inText != ""
		inText, code = outsideTexts(inText, strings.TrimRight(line, "\r\n"))
		movable = movable || elsewhere.MatchString(code)
		if wasInText || !strings.Contains(code, "environ[") {
			continue
		}
		for _, found := range readsVariable.FindAllStringSubmatch(line, -1) {
			if found[2] == "=" {
				optional = append(optional, found[1])
				continue
			}
			always := !movable && code[0] != ' ' && code[0] != '\t' && !guards.MatchString(code)
			at := slices.IndexFunc(all, func(u facts.Unset) bool { return u.Name == found[1] })
			if at >= 0 {
				all[at].Always = all[at].Always || always
				continue
			}
			if _, isSet := lookup(found[1]); !isSet {
				all = append(all, facts.Unset{Name: found[1], Always: always})
			}
		}
	}
	all = slices.DeleteFunc(all, func(u facts.Unset) bool { return slices.Contains(optional, u.Name) })
	slices.SortFunc(all, func(a, b facts.Unset) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// loaderWorkers matches the number of workers of a DataLoader, outside of comments.
var loaderWorkers = lazyregexp.New(`(?m)^[^#\n]*\bnum_workers[ \t]*=[ \t]*(\d+|[\pL_(])`)

// workers returns the largest number of worker processes that a script asks a DataLoader for, as in
// facts.File.
func workers(script string) (most string) {
	if !strings.Contains(script, "DataLoader") {
		return ""
	}
	for _, found := range loaderWorkers.FindAllStringSubmatch(script, -1) {
		switch number, err := strconv.Atoi(found[1]); {
		case err == nil && number > 0:
			return found[1]
		case err != nil:
			most = facts.WorkersAsTold
		}
	}
	return most
}

// saves matches a call that saves a checkpoint, outside of comments.
var saves = lazyregexp.New(`(?m)^[^#\n]*(\btorch\.save|\.save_(pretrained|checkpoint|state|model|file))\(`)

// writes matches code that may write files, or that hands the work to a library that does.
var writes = lazyregexp.New(`(?i)\bopen\([^)\n]*,\s*(mode\s*=\s*)?["'][^"'\n]*[wax+]|\bopen\([^"')\n,]*,\s*[^"'\s]|\bsave|\.save|_save|mkdir|makedirs|\.write_(text|bytes)|\.to_(csv|parquet|json|disk|pickle)\(|writer|trainer|filehandler|basicConfig|hydra|lightning|wandb|mlflow|tensorboard|comet|clearml|neptune|\bdump\(|checkpoint|shutil|subprocess|os\.(system|exec|popen|spawn|rename|replace|link|symlink|mknod|mkfifo)|log_?dir|out(put)?_?dir|tofile|memmap|profil|sqlite|h5py|runpy|download|exec\(|import_module`)
