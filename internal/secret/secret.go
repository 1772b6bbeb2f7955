// SPDX-License-Identifier: Apache-2.0

// Package secret says what in a text may be a secret, and puts "…" in its place: by the name
// it is given ("--pat", "X-Amz-Signature", "db_password"), by the shape of the tokens that are
// handed out (ghp_…, AKIA…, JSON Web Tokens, private keys), and because it is a word of 40 or more
// characters that looks random.
//
// What is collected goes through it before it leaves a node, and whatever is kept or shown
// goes through it again where it is written. A text that went through it once stays as it is.
//
// It refuses to hide what reports are read for, though it is as random: digests, commits,
// fingerprints, UUIDs, serial numbers, paths and symbols. It refuses to know who has what in
// which field: whoever collects a variable says by its own list whether it may be brought.
package secret

import (
	"strings"

	"preflight/internal/lazyregexp"
)

// Hidden stands in the place of what may be a secret.
const Hidden = "…"

// shortest is the length of a text in which something is looked for.
const shortest = 4

// Hide is the text without what may be a secret.
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

// hideKeys hides what is inside of private keys, with line breaks or "\n" for them.
func hideKeys(text string) string {
	if !strings.Contains(text, "PRIVATE KEY") {
		return text
	}
	return privateKey.ReplaceAllString(text, "${1}"+Hidden+"${2}")
}

var privateKey = lazyregexp.New(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).+?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)`)

// HideUsers replaces who logs in, with or without a password, in every address of
// a text: a token may be either.
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
	// Without a scheme there are a name and a password: as proxies are given to nc.
	userAndPassword = lazyregexp.New(`(?:^|[\s"'=,(])[\w.+%-]+:[^\s"'/:]+@[\w.\[]`)
)
