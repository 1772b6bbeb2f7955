package launcher

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/hostfile"
	"preflight/launch"
)

// rereadArguments judges arguments of the script that pdsh and the shell of every
// node read once more: an operator in them ends the command, anything else only
// changes a value.
func rereadArguments(view checks.View, note hostfile.Note) []checks.Finding {
	if !slices.ContainsFunc(view.Launch.Arguments, func(a string) bool { return handedOn(a) != a && !meant(a) }) {
		return nil
	}
	f := trap{fatal: slices.ContainsFunc(sentArguments(view), breaksUp), wouldSee: "a script that gets other arguments than were typed"}.finding(view, note)
	if f.Verdict == checks.Fail {
		f.WouldSee = "bash: -c: line 1: syntax error near unexpected token, or a part of the argument run as a command of its own"
	}
	f.Remedy = []fix.Command{fix.Here("deepspeed … %s %s", fix.Path(view.Launch.Script), fix.List[fix.Word](" ", retyped(view.Launch.Arguments)))}
	if hostfile.Before(view.Launch.DeepSpeed, "0.12.5") { // which quotes by other rules
		f.Remedy = []fix.Command{fix.Here("pip install --upgrade deepspeed   # on every node; or have the script read the value from a file")}
	}
	return []checks.Finding{f}
}

// rereadWorkDir judges a working directory that no shell changes to: without it a
// script is not found, unless its path says where it is.
func rereadWorkDir(view checks.View, note hostfile.Note) []checks.Finding {
	return []checks.Finding{trap{
		fatal: !strings.HasPrefix(view.Launch.Script, "/"), fix: movedAway, wouldSee: "bash: line 1: cd: too many arguments",
	}.finding(view, note)}
}

// sentArguments are the script's arguments as DeepSpeed hands them to pdsh, which
// by release puts quotes around some.
func sentArguments(view checks.View) []string {
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

// retyped are the arguments as DeepSpeed must be given them for the script to get them.
func retyped(arguments []string) []string {
	var words []string
	for _, argument := range arguments {
		if !meant(argument) {
			argument = handedOn(argument)
		}
		words = append(words, argument)
	}
	return words
}

// handedOn is what DeepSpeed must be given for a script to get an argument, since
// 0.12.5: one with a blank it puts in double quotes itself.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.parse_user_args,
// 0.12.5 to 0.19.8, and pdsh 2.34, which reads %h, %u, %n and %% in every word.
func handedOn(argument string) string {
	if strings.Contains(argument, " ") {
		return pdshWord(strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(argument))
	}
	return pdshWord(fix.Quote(argument))
}

// meant is whether an argument is quoted already for the shells that will read it
// once more: whoever did that knows what the script will get.
func meant(argument string) bool {
	word := strings.ReplaceAll(argument, "%%", "%")
	if strings.Contains(word, " ") {
		got := strings.NewReplacer(`\\`, `\`, `\$`, "$", "\\`", "`").Replace(word)
		return handedOn(got) == argument
	}
	words, err := launch.SplitWords(word)
	return err == nil && len(words) == 1 && handedOn(words[0]) == argument
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
