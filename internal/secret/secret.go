// SPDX-License-Identifier: Apache-2.0

// Package secret replaces possible secrets in a text by "…". It recognises them by their name
// ("--pat", "X-Amz-Signature", "db_password"), by the form of known tokens (ghp_…, AKIA…, JSON Web
// Tokens, private keys), and as words of 40 or more characters that look random.
//
// Collected text passes through it before it leaves a node, and everything that is kept or shown
// passes through it again when it is written. A second pass changes nothing.
//
// It does not hide what reports are read for, although it looks random: digests, commits,
// fingerprints, UUIDs, serial numbers, paths and symbols. It knows no fields: the code that
// collects a variable decides by its own list whether the variable may be sent.
package secret

import (
	"strings"

	"preflight/internal/lazyregexp"
)

// Hidden replaces a possible secret.
const Hidden = "…"

// shortest is the minimum length of a text that is searched.
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

// hideKeys hides the content of private keys, with line breaks or "\n".
func hideKeys(text string) string {
	if !strings.Contains(text, "PRIVATE KEY") {
		return text
	}
	return privateKey.ReplaceAllString(text, "${1}"+Hidden+"${2}")
}

var privateKey = lazyregexp.New(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).+?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)`)

// HideUsers hides the user and password in every address of a text, because either may be a token.
func HideUsers(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	text = userInfo.ReplaceAllString(text, "//"+Hidden+"@")
	return userAndPassword.ReplaceAllStringFunc(text, func(found string) string {
		at := strings.LastIndex(found, "@")
		name, password, _ := strings.Cut(found[:at], ":")
		if strings.Trim(password, "0123456789,-") == "" { // slots of a host: w1:0,1@w2
			return found
		}
		start := strings.TrimRightFunc(name, isNameRune)
		return start + Hidden + found[at:]
	})
}

var (
	userInfo = lazyregexp.New(`//[^/?#\s"']+@`)
	// Without a scheme there must be a name and a password, as proxies are given to nc.
	userAndPassword = lazyregexp.New(`(?:^|[\s"'=,(])[\w.+%-]+:[^\s"'/:]+@[\w.\[]`)
)
