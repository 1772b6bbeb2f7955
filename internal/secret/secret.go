// SPDX-License-Identifier: Apache-2.0

// Package secret replaces possible secrets in a text by "…". It recognises secrets in three ways:
// by their name ("--pat", "X-Amz-Signature", "db_password"), by the form of known tokens (ghp_…,
// AKIA…, JSON Web Tokens, private keys), and as words of 40 or more characters that look random.
//
// Collected text passes through the package before it leaves a node. Everything that is kept or
// shown passes through it again when it is written. A second pass changes nothing.
//
// The package does not hide digests, commits, fingerprints, UUIDs, serial numbers, paths and
// symbols. They look random, but readers of reports need them. The package knows no fields: the
// code that collects a variable decides by its own list whether the variable may be sent.
package secret

import (
	"strings"

	"preflight/internal/lazyregexp"
)

// Hidden is the text that replaces a possible secret.
const Hidden = "…"

// shortest is the minimum length of a text that is searched for secrets.
const shortest = 4

// Hide returns the text without possible secrets.
func Hide(text string) string {
	if len(text) < shortest || !strings.ContainsAny(text, "=:@- ") && !holdsToken(text) {
		return text
	}
	text = hideKeys(text)
	text = HideUsers(text)
	text = hideNamed(text)
	text = hideOptions(text)
	text = hideShapes(text)
	return hideRandom(text)
}

// hideKeys hides the content of private keys. Its lines may be separated by line breaks or by "\n".
func hideKeys(text string) string {
	if !strings.Contains(text, "PRIVATE KEY") {
		return text
	}
	return privateKey.ReplaceAllString(text, "${1}"+Hidden+"${2}")
}

var privateKey = lazyregexp.New(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).+?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)`)

// HideUsers hides the user and password in every address of a text, because each of them may be a
// token.
func HideUsers(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	text = userInfo.ReplaceAllString(text, "//"+Hidden+"@")
	return userAndPassword.ReplaceAllStringFunc(text, func(found string) string {
		at := strings.LastIndex(found, "@")
		name, password, _ := strings.Cut(found[:at], ":")
		if strings.Trim(password, "0123456789,-") == "" { // the slots of a host, as in w1:0,1@w2, are not a password
			return found
		}
		start := strings.TrimRightFunc(name, isNameRune)
		return start + Hidden + found[at:]
	})
}

var (
	userInfo = lazyregexp.New(`//[^/?#\s"']+@`)
	// An address without a scheme must have a name and a password to match, as in the form in which
	// nc gets proxies.
	userAndPassword = lazyregexp.New(`(?:^|[\s"'=,(])[\w.+%-]+:[^\s"'/:]+@[\w.\[]`)
)
