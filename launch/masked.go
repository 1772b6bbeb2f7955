package launch

import (
	"slices"
	"strings"

	"preflight/facts"
)

// masked are arguments as a report may show them, without what may be a secret:
// reports are kept and passed around, and DeepSpeed itself never reads one. What
// is started is what was typed.
func masked(arguments []string) []string {
	shown := slices.Clone(arguments)
	for i, argument := range arguments {
		if i > 0 && announcesSecret(arguments[:i]) && !strings.HasPrefix(argument, "-") {
			shown[i] = facts.Hidden
			continue
		}
		shown[i] = maskedWord(argument)
	}
	return shown
}

// announcesSecret is whether the next word is the value of a secret: of an option,
// or of a variable that the launchers of MPICH take as two words.
func announcesSecret(before []string) bool {
	name := before[len(before)-1]
	variable := len(before) > 1 && slices.Contains([]string{"-env", "-genv"}, before[len(before)-2])
	return (variable || strings.HasPrefix(name, "-")) && !strings.ContainsAny(name, "=:") && facts.Secret(name)
}

// maskedWord hides all that follows the first secret of a word: a word may be a
// setting or a list of them, an address with a query, a header, or JSON.
func maskedWord(word string) string {
	from := 0
	for i, r := range word {
		if (r == '=' || r == ':') && facts.Secret(word[from:i]) && i+1 < len(word) {
			return facts.HideUsers(word[:i+1]) + facts.Hidden
		}
		if strings.ContainsRune("=:, ;&?/{}[]()\n\t", r) {
			from = i + 1
		}
	}
	return facts.HideUsers(word)
}
