// SPDX-License-Identifier: Apache-2.0

package text

import "strings"

// Quote quotes a word for a person to paste into a POSIX shell.
func Quote(word string) string {
	if IsPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsPlain reports whether a shell takes the word as it stands, however often it is parsed:
// what goes through ssh is parsed once here and once there.
func IsPlain(word string) bool {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+=:,./_-", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}
