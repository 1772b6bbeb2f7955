// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"errors"
	"testing"
)

// Every call and answer is either a message made with the token, the beginning of one, or a
// stranger's; and a message is decoded to what was sent.
func FuzzDecode(f *testing.F) {
	k := keyOf("token")
	f.Add(message{kind: meshHello, amount: 7, name: "w1"}.encode(k))
	f.Add(append(message{kind: meshAnswer}.encode(k), received, 1, 2))
	f.Add([]byte{meshHello, 0})
	f.Fuzz(func(t *testing.T, said []byte) {
		m, rest, err := decode(said, k, meshHello, meshAnswer)
		switch {
		case err == nil:
			if again := append(m.encode(k), rest...); !bytes.Equal(again, said) {
				t.Errorf("%x is read as %+v, which is %x", said, m, again)
			}
		case errors.Is(err, errShort):
			if len(said) >= headLength+maxName {
				t.Errorf("%d bytes are not yet a message", len(said))
			}
		case !errors.Is(err, errStranger):
			t.Errorf("%x: %v", said, err)
		}
	})
}
