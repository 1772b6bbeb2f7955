// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"fmt"
	"strings"
	"testing"

	"preflight/testhosts/secrettest"
)

// TestTokens checks each kind of token, alone and in every context that a text may have.
func TestTokens(t *testing.T) {
	around := []string{"%s", "it says %s there", "x: '%s'", `{"x": "%s"}`, "NAME=%s", "https://host/%s", "(%s)", "a,%s,b", "%s\nnext", "a\t%s."}
	for seed := range uint64(20) {
		all := secrettest.Tokens(seed)
		if len(all) < 200 {
			t.Fatalf("%d formats", len(all))
		}
		for _, token := range all {
			for _, where := range around {
				text := fmt.Sprintf(where, token.Text)
				hidden := Hide(text)
				for _, secret := range token.Secrets {
					if strings.Contains(hidden, secret) {
						t.Errorf("%s, %d: %s\nis %s", token.Format, seed, text, hidden)
					}
				}
				if again := Hide(hidden); again != hidden {
					t.Errorf("%s: %s\nis %s\nthen %s", token.Format, text, hidden, again)
				}
			}
		}
	}
}
