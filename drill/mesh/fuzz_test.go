// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzDecode checks that every input is a message made with the token, the beginning of such a
// message, or a stranger's. A message must be decoded to what was sent.
func FuzzDecode(f *testing.F) {
	k := keyOf("token")
	f.Add(message{kind: meshHello, amount: 7, name: "w1"}.encode(k))
	f.Add(append(message{kind: meshAnswer}.encode(k), received, 1, 2))
	f.Add([]byte{meshHello, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		m, rest, err := decode(message, k, meshHello, meshAnswer)
		switch {
		case err == nil:
			if again := append(m.encode(k), rest...); !bytes.Equal(again, message) {
				t.Errorf("%x is read as %+v, which is %x", message, m, again)
			}
		case errors.Is(err, errShort):
			if len(message) >= headLength+maxName {
				t.Errorf("%d bytes are not yet a message", len(message))
			}
		case !errors.Is(err, errStranger):
			t.Errorf("%x: %v", message, err)
		}
	})
}
