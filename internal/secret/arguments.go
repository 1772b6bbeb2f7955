// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"strings"
)

// Arguments are the words of a command as a report may show them: reports are kept and
// passed around. What is started is what was typed.
func Arguments(words []string) []string {
	shown := slices.Clone(words)
	for i, word := range words {
		if i > 0 && announces(words[:i], word) && !strings.HasPrefix(word, "-") {
			shown[i] = Hidden
			continue
		}
		shown[i] = hideWord(word)
		const sentence = 5 // words: login NAME password WORD
		if spoken := spokenAtEnd(strings.Join(words[max(0, i-sentence+1):i+1], " ")); 0 < spoken && spoken <= len(word) {
			shown[i] = word[:len(word)-spoken] + Hidden
		}
	}
	return shown
}

// announces is whether the next word is the value of a secret: of an option, of a header,
// or of a variable that the launchers of MPICH take as two words.
func announces(before []string, next string) bool {
	name := before[len(before)-1]
	if variable := len(before) > 1 && slices.Contains([]string{"-env", "-genv"}, before[len(before)-2]); variable {
		return Named(name)
	}
	if header := strings.TrimRight(name, ":="); header != name && !strings.ContainsAny(header, "=:") && Named(header) {
		return true // typed without quotes
	}
	if !strings.HasPrefix(name, "-") || strings.ContainsAny(name, "=:") {
		return false
	}
	return Named(name) || next != "" && hidesNext(name, next)
}

// hideWord hides all that follows the first secret of a word: a word may be a
// setting or a list of them, an address with a query, a header, or JSON.
func hideWord(word string) string {
	from := 0
	for i, r := range word {
		if (r == '=' || r == ':') && Named(word[from:i]) && i+1 < len(word) {
			return Hide(word[:i+1]) + Hidden
		}
		if strings.ContainsRune("=:, ;&?/{}[]()\n\t", r) {
			from = i + 1
		}
	}
	return Hide(word)
}
