package checks

import (
	"slices"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

// rereadArguments judges arguments of the script that pdsh and the shell of every
// node read once more: an operator in them ends the command, anything else only
// changes a value.
func rereadArguments(view View, note hostfile.Note) []Finding {
	f := trap{fatal: slices.ContainsFunc(sentArguments(view), breaksUp), wouldSee: "a script that gets other arguments than were typed"}.finding(view, note)
	if f.Verdict == Fail {
		f.WouldSee = "bash: -c: line 1: syntax error near unexpected token, or a part of the argument run as a command of its own"
	}
	f.Fix = []string{"deepspeed … " + ShellWord(view.Launch.Script) + " " + strings.Join(retyped(view.Launch.Arguments), " ")}
	if launch.Before(view.Launch.DeepSpeed, "0.12.5") { // which quotes by other rules
		f.Fix = []string{"pip install --upgrade deepspeed   # on every node; or have the script read the value from a file"}
	}
	return []Finding{f}
}

// rereadWorkDir judges a working directory that no shell changes to: without it a
// script is not found, unless its path says where it is.
func rereadWorkDir(view View, note hostfile.Note) []Finding {
	return []Finding{trap{
		fatal: !strings.HasPrefix(view.Launch.Script, "/"), fix: movedAway, wouldSee: "bash: line 1: cd: too many arguments",
	}.finding(view, note)}
}

// sentArguments are the script's arguments as DeepSpeed hands them to pdsh, which
// by release puts quotes around some.
func sentArguments(view View) []string {
	command, count := view.Launch.Command, len(view.Launch.Arguments)
	if len(command) < count {
		return nil
	}
	return command[len(command)-count:]
}

// breaksUp is whether a shell finds an operator in a word, or no end of its
// quotes.
func breaksUp(word string) bool {
	var quote rune
	escaped := false
	for _, r := range word {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune(";&|<>()\n", r):
			return true
		}
	}
	return quote != 0 || escaped
}

// retyped are the arguments as they must be typed for the script to get them,
// since DeepSpeed 0.12.5: one with a blank it puts in double quotes itself.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.parse_user_args,
// 0.12.5 to 0.19.8, and pdsh 2.34, which reads %h, %u, %n and %% in every word.
func retyped(arguments []string) []string {
	var words []string
	for _, argument := range arguments {
		word := argument
		if strings.Contains(argument, " ") {
			word = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(argument)
		} else {
			word = ShellWord(argument)
		}
		words = append(words, ShellWord(pdshWord(word)))
	}
	return words
}

// pdshWord doubles every % that pdsh would replace.
func pdshWord(word string) string {
	var text strings.Builder
	for i, r := range word {
		text.WriteRune(r)
		if r == '%' && i+1 < len(word) && strings.ContainsRune("hun%", rune(word[i+1])) {
			text.WriteByte('%')
		}
	}
	return text.String()
}
