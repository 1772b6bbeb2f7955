// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
)

var (
	// compileCall matches code that makes torch compile what follows.
	compileCall = lazyregexp.New(`\btorch\.compile\b|\bfrom\s+torch\s+import\b.*\bcompile\b`)
	// compilesNothing matches the backends of torch.compile that run no compiler, and a switch of it.
	compilesNothing = lazyregexp.New(`\bbackend\s*=\s*["'](?:aot_)?eager|\bdisable\s*=\s*True`)
	// asked matches the beginning of a block that may not run.
	asked = lazyregexp.New(`^(?:if|elif|else|try|except|while|for|match|case)\b`)
	main  = lazyregexp.New(`^if\s+__name__\b`)
)

// compilers lists modules that compile kernels with Triton when they are used.
var compilers = []string{"liger_kernel", "unsloth"}

// siblingsRead limits how many modules next to the script are read.
const siblingsRead = 20

// compiles returns whether a script compiles code as it runs: see [facts.File]. It also reads the
// modules in dir that the script imports.
func compiles(script, dir string, imports []string) string {
	sometimes := slices.Contains(imports, "triton")
	texts := []string{script}
	for _, module := range imports {
		if slices.Contains(compilers, module) {
			return facts.CompilesAlways
		}
		if len(texts) <= siblingsRead {
			if text, err := readOrdinary(filepath.Join(dir, module+".py"), scriptSize); err == nil {
				texts = append(texts, string(text))
			}
		}
	}
	for _, text := range texts {
		switch compilesIn(text) {
		case facts.CompilesAlways:
			return facts.CompilesAlways
		case facts.CompilesSometimes:
			sometimes = true
		}
	}
	if sometimes {
		return facts.CompilesSometimes
	}
	return ""
}

// compilesIn scans the text of one file. A call that is in a block with a condition, or shares its
// line with one, may never run.
func compilesIn(text string) (found string) {
	type block struct {
		indent int
		maybe  bool
	}
	var blocks []block
	var inText string
	for raw := range strings.Lines(text) {
		backends := raw
		if inText, raw = outsideTexts(inText, strings.TrimRight(raw, "\r\n")); strings.TrimSpace(raw) == "" {
			continue
		}
		code := strings.TrimLeft(raw, " \t")
		indent := len(raw) - len(code)
		for len(blocks) > 0 && blocks[len(blocks)-1].indent >= indent {
			blocks = blocks[:len(blocks)-1]
		}
		maybe := slices.ContainsFunc(blocks, func(b block) bool { return b.maybe })
		conditional := asked.MatchString(code) && !main.MatchString(code)
		if compileCall.MatchString(code) && !compilesNothing.MatchString(backends) {
			if !maybe && !conditional && !strings.Contains(code, " if ") && !strings.Contains(code, "import") {
				return facts.CompilesAlways
			}
			found = facts.CompilesSometimes
		}
		if strings.HasSuffix(strings.TrimSpace(code), ":") {
			blocks = append(blocks, block{indent, conditional})
		}
	}
	return found
}
