// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"strings"
	"unicode"
)

// Named is whether a name promises a secret: of a key, a variable, an option, a header or a
// parameter of an address, in any spelling.
func Named(name string) bool {
	words := nameWords(name)
	for i := range words {
		if secretAt(words, i) {
			return true
		}
	}
	return false
}

// NamedThroughout is whether a name promises nothing but secrets, by its last
// word: credentials, but not key_of.
func NamedThroughout(name string) bool {
	words := nameWords(name)
	return len(words) > 0 && secretAt(words, len(words)-1)
}

// nameWords are the words that a name is made of: "wandbApiKey" as "WANDB_API_KEY". There
// are none in the name of what a shell calls its directory.
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
	// plainWords are secrets only to a machine: before a colon in a sentence they are
	// something else ("host key: …", "pass: 3").
	plainWords  = []string{"key", "pass", "pat", "auth", "cred", "creds", "sig", "signature", "bearer"}
	secretWords = []string{"pwd", "webhook", "webhooks", "jwt", "cookie", "cookies"}
	endings     = []string{
		"token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "credential", "credentials", "authorization",
		"apikey", "apikeys", "accesskey", "accesskeys", "secretkey", "secretkeys", "authkey", "accountkey", "privatekey", "sharedkey",
		"authtokens", "accesstokens",
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
	return slices.Contains(plainWords, word) || slices.Contains(secretWords, word) ||
		slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(word, ending) })
}

// plainly is whether a name is a plain word: in a sentence it promises nothing.
func plainly(name string) bool {
	words := nameWords(name)
	if len(words) == 0 || !slices.Contains(plainWords, words[len(words)-1]) {
		return false
	}
	return len(words) == 1 || !slices.Contains(openers, words[len(words)-2])
}
