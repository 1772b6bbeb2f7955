// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"strings"
	"unicode"
)

// Named reports whether a name belongs to a secret: a key, variable, option, header or address
// parameter, in any spelling.
func Named(name string) bool {
	words := nameWords(name)
	for i := range words {
		if secretAt(words, i) {
			return true
		}
	}
	return false
}

// NamedThroughout reports whether the last word of a name names a secret, as in credentials but not
// in key_of. Such a name belongs only to secrets.
func NamedThroughout(name string) bool {
	words := nameWords(name)
	return len(words) > 0 && secretAt(words, len(words)-1)
}

// nameWords returns the words of a name: "wandbApiKey" gives the same words as "WANDB_API_KEY". It
// returns none for the variables that hold a shell's directory.
func nameWords(name string) []string {
	if name == "PWD" || name == "OLDPWD" {
		return nil
	}
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
	// plainWords lists words that name secrets in configurations. Before a colon in a sentence they
	// mean something else ("host key: …", "pass: 3").
	plainWords  = []string{"key", "pass", "pat", "auth", "cred", "creds", "sig", "signature", "bearer"}
	secretWords = []string{"pwd", "webhook", "webhooks", "jwt", "cookie", "cookies"}
	endings     = []string{
		"token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "credential", "credentials", "authorization",
		"apikey", "apikeys", "accesskey", "accesskeys", "secretkey", "secretkeys", "authkey", "accountkey", "privatekey", "sharedkey",
		"authtokens", "accesstokens",
	}
	// openers lists the words before "key" or "token" that mark a key or token that gives access.
	openers = []string{"access", "api", "auth", "private", "secret"}
)

// secretAt reports whether a word of a name names a secret. "token" and "key" alone do not, because
// they also name parts of a model.
func secretAt(words []string, i int) bool {
	word := words[i]
	if word == "keys" || word == "tokens" {
		return i > 0 && slices.Contains(openers, words[i-1])
	}
	return slices.Contains(plainWords, word) || slices.Contains(secretWords, word) ||
		slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(word, ending) })
}

// plainly reports whether a name is a plain word. Such a name does not name a secret in a sentence.
func plainly(name string) bool {
	words := nameWords(name)
	if len(words) == 0 || !slices.Contains(plainWords, words[len(words)-1]) {
		return false
	}
	return len(words) == 1 || !slices.Contains(openers, words[len(words)-2])
}
