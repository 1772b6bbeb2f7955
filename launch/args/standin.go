// SPDX-License-Identifier: Apache-2.0

package args

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/launch"
)

// StandIn returns a launch command in a form in which another script can take the place of the
// training. The command is one that [Parse] accepts, and the result describes the command that a
// framework starts. Everything else about the command stays as it was typed.
func StandIn(words []string, deepspeed string, around Surroundings) launch.StandIn {
	command, by, _, err := started(words, around)
	if err == nil && by == srunName {
		return behind(unredirected(words[:len(words)-len(command)]), StandIn(command, deepspeed, around))
	}
	if err == nil && command != nil {
		words = command
	}
	typed, err := Parse(words, deepspeed, around)
	if err != nil {
		return launch.StandIn{Refused: err.Error()}
	}
	at := len(words) - 1 - len(typed.Arguments)
	if at < 1 || words[at] != typed.Script {
		return launch.StandIn{Refused: "the place of the script in the command is not clear"}
	}
	words = slices.Clone(words)
	options := at
	var script, module string
	switch {
	case typed.Module:
		module = typed.Script
		flag := slices.IndexFunc(words[:at], func(word string) bool { return isModuleFlag(words, at, word, deepspeed, around) })
		if flag < 0 {
			return launch.StandIn{Refused: "the option for a module comes from the environment: write --module in the command"}
		}
		words = slices.Delete(words, flag, flag+1)
		at, options = at-1, at-1
	case typed.NoPython:
		isModule, what, rest := pythonRuns(typed.Arguments)
		if !pythonName.MatchString(path.Base(typed.Script)) || what == "" {
			return launch.StandIn{Refused: fmt.Sprintf("%s is a program and not a Python script: start the script itself", typed.Script)}
		}
		at = len(words) - 1 - len(rest)
		if isModule {
			module = what
			if words[at-1] != "-m" {
				return launch.StandIn{Refused: "the place of the module in the command is not clear: write it after -m"}
			}
			words = slices.Delete(words, at-1, at)
			at--
		} else {
			script = what
		}
	default:
		script = typed.Script
	}
	s := launch.NewStandIn(typed.Options, words, at, options)
	s.Script, s.Module = script, module
	return s
}

// behind returns a stand-in whose command srun starts on every node. before holds srun's words.
func behind(before []string, s launch.StandIn) launch.StandIn {
	if s.Refused == "" {
		s.Words, s.At, s.Options = slices.Concat(before, s.Words), s.At+len(before), s.Options+len(before)
		s.Everywhere, s.NodeRank = false, ""
	}
	return s
}

// isModuleFlag reports whether the launcher would run the module as a script if a word was not
// there.
func isModuleFlag(words []string, at int, word, deepspeed string, around Surroundings) bool {
	i := slices.Index(words[:at], word)
	if !strings.HasPrefix(word, "-") {
		return false
	}
	without := slices.Delete(slices.Clone(words), i, i+1)
	typed, err := Parse(without, deepspeed, around)
	return err == nil && !typed.Module && typed.Script == words[at]
}
