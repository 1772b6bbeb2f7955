package facts

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Hidden stands in the place of what may be a secret.
const Hidden = "…"

// Secret is whether a name promises a secret: of a key, a variable or an option,
// in any spelling.
func Secret(name string) bool {
	words := nameWords(name)
	for i := range words {
		if secretAt(words, i) {
			return true
		}
	}
	return false
}

// SecretThroughout is whether a name promises nothing but secrets, by its last
// word: credentials, but not key_of.
func SecretThroughout(name string) bool {
	words := nameWords(name)
	return len(words) > 0 && secretAt(words, len(words)-1)
}

// HideUsers replaces who logs in, with or without a password, in every address of
// a text: a token may be either.
func HideUsers(text string) string { return userInfo.ReplaceAllString(text, "//"+Hidden+"@") }

var userInfo = regexp.MustCompile(`//[^/\s"'@]+@`)

// nameWords are the words that a name is made of: "wandbApiKey" as "WANDB_API_KEY".
func nameWords(name string) []string {
	var spaced strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

var (
	secretWords   = []string{"key", "pass", "pwd", "cred", "creds", "auth", "bearer", "webhook", "webhooks"}
	secretEndings = []string{
		"token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential", "credentials", "authorization",
		"apikey", "apikeys", "accesskey", "accesskeys", "secretkey", "secretkeys", "authtokens", "accesstokens",
	}
	// openers are what comes before keys and tokens that open something.
	openers = []string{"access", "api", "auth", "private", "secret"}
)

// secretAt is whether one word of a name promises a secret. Tokens and keys by
// themselves are what a model has.
func secretAt(words []string, i int) bool {
	word := words[i]
	if word == "keys" || word == "tokens" {
		return i > 0 && slices.Contains(openers, words[i-1])
	}
	return slices.Contains(secretWords, word) || slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(word, ending) })
}
