// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"preflight/facts"
)

// FuzzParseEnvFile: each line of a .deepspeed_env sets a variable or is a problem. survivesShell
// accepts no value with characters that a shell interprets.
func FuzzParseEnvFile(f *testing.F) {
	f.Add("NCCL_DEBUG=INFO\nexport A = b\n# c\n#=\n=\n\nexport export A=1")
	f.Add("A=$(id)\nB='x y'\nC=\\\nD=%h")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		settings, problems := ParseEnvFile(facts.EnvFile{Path: "x", Lines: lines})
		if len(settings)+len(problems) != len(lines) {
			t.Errorf("%q: %d settings and %d problems", text, len(settings), len(problems))
		}
		for _, s := range settings {
			if !identifier.MatchString(s.Name) || s.Value != strings.TrimSpace(s.Value) {
				t.Errorf("%q sets %q to %q", text, s.Name, s.Value)
			}
			if survivesShell(s.Value, s.Value) && strings.ContainsAny(s.Value, " \t$`;&|<>()\\\"'") {
				t.Errorf("%q survives a shell", s.Value)
			}
		}
	})
}
