// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMessage checks that decode can tell, for the beginning of any message, whether it may become
// a message.
func TestMessage(t *testing.T) {
	k := keyOf("a token")
	for _, name := range []string{"", "w1", strings.Repeat("n", maxName)} {
		want := message{kind: meshAnswer, amount: 4344, name: name}
		sent := want.encode(k)
		got, rest, err := decode(append(slices.Clone(sent), "more"...), k, meshAnswer)
		if got != want || string(rest) != "more" || err != nil {
			t.Errorf("%+v became %+v, followed by %q (%v)", want, got, rest, err)
		}
		for n := range sent {
			if _, _, err := decode(sent[:n], k, meshAnswer); !errors.Is(err, errShort) {
				t.Errorf("%d of %d bytes: %v", n, len(sent), err)
			}
		}
		for n := range 1 + len(k) {
			other := slices.Clone(sent)
			other[n] ^= 1
			if _, _, err := decode(other[:n+1], k, meshAnswer); !errors.Is(err, errStranger) {
				t.Errorf("byte %d is another: %v", n, err)
			}
		}
		if _, _, err := decode(sent, k, meshHello, throughputHello); !errors.Is(err, errStranger) {
			t.Errorf("an answer where a hello is due: %v", err)
		}
		if _, _, err := decode(sent, keyOf("another"), meshAnswer); !errors.Is(err, errStranger) {
			t.Errorf("an answer of another run: %v", err)
		}
	}
}

// TestLongName checks that a name that is too long is shortened, and that the message still works.
func TestLongName(t *testing.T) {
	k := keyOf("a token")
	long := strings.Repeat("n", maxName+1)
	got, rest, err := decode(message{kind: meshHello, name: long}.encode(k), k, meshHello)
	if got.name != long[:maxName] || len(rest) > 0 || err != nil {
		t.Errorf("%d bytes of the name came, followed by %q (%v)", len(got.name), rest, err)
	}
}

// TestPayload checks that at least three full segments are sent, whatever the size of a segment is.
func TestPayload(t *testing.T) {
	for _, mss := range []int{536, 1448, 8948, 65483, 1 << 20} {
		if got := len(payloadFor(mss)); got < payloadSegments*min(mss, 65535) {
			t.Errorf("%d bytes for a segment of %d", got, mss)
		}
	}
}

// TestSpeech checks that the receiver of a speech can tell whether the speech is complete.
func TestSpeech(t *testing.T) {
	k := keyOf("a token")
	hello := speech{kind: meshHello, key: k, node: "w1"}
	answer := speech{kind: meshAnswer, key: k, node: "w2"}
	for _, mss := range []int{536, 1448, 1448, 536} {
		sent, rest, err := decode(hello.forSegment(mss), k, meshHello)
		if want := (message{kind: meshHello, amount: uint64(payloadSegments * mss), name: "w1"}); sent != want || err != nil {
			t.Errorf("%+v was said with segments of %d (%v)", sent, mss, err)
		}
		if uint64(len(rest)) != sent.amount {
			t.Errorf("%d bytes follow the hello and not %d", len(rest), sent.amount)
		}
		sent, rest, err = decode(answer.forSegment(mss), k, meshAnswer)
		if err != nil || rest[0] != received || uint64(len(rest)-1) != sent.amount {
			t.Errorf("%d bytes follow the answer %+v (%v)", len(rest), sent, err)
		}
		for _, s := range []speech{hello, answer} {
			if _, rest, err := decode(s.text[:s.prefixLength], k, s.kind); len(rest) > 0 || err != nil {
				t.Errorf("%d of %d bytes are no message alone: %v", s.prefixLength, len(s.text), err)
			}
		}
	}
}

// callsTime is the maximum time of one call on machines that are not busy.
const callsTime = connectTime + exchangeTime

// TestTimesNest checks that every fault is named within five seconds. That must include the time
// for the other ports after the first port has failed to connect.
func TestTimesNest(t *testing.T) {
	if 2*connectTime > callsTime {
		t.Errorf("connecting takes %v, what follows %v, and all of it %v", connectTime, exchangeTime, callsTime)
	}
	if stepsTime >= exchangeTime || callPatience >= stepsTime {
		t.Errorf("of %v for an exchange, %v are for its steps", exchangeTime, stepsTime)
	}
	if callsTime >= 5*time.Second {
		t.Errorf("calling takes %v", callsTime)
	}
}
