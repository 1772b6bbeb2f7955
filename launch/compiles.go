// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

// Compiles returns whether the ranks compile code as they run, with torch.compile or Triton: see
// [facts.File]. script is the launching machine's copy of the script. It may also have an option
// torch_compile, as scripts with TrainingArguments of transformers do.
func (p Prediction) Compiles(script *facts.File) string {
	if script == nil {
		return ""
	}
	for i, word := range p.Arguments {
		option, value, joined := strings.Cut(strings.ReplaceAll(word, "-", "_"), "=")
		if !joined && i+1 < len(p.Arguments) {
			value = p.Arguments[i+1]
		}
		isOff := slices.Contains([]string{"no", "false", "0", "n", "f", "off"}, strings.ToLower(value))
		if option == "__torch_compile" && !isOff && slices.Contains(script.Imports, "transformers") {
			return facts.CompilesAlways
		}
	}
	return script.Compiles
}
