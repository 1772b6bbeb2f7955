// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// gathered was made by torch 2.4.1; torch 2.15 makes the same. It is the state of the third round.
// The launchers of w1 and w2 have joined, and the launcher of w3 waits for the next round.
const gathered = "gASVmwEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiYwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwCdzGUjANwaWSUTZIQjAhsb2NhbF9pZJRLAHViSwBoDCmBlH2UKGgPjAJ3MpRoEUpwEQEAaBJLAHViSwF1jAl3YWl0X2xpc3SUj5QoaAwpgZR9lChoD4wCdzOUaBFLB2gSSwF1YpCMD3JlZHVuZGFuY3lfbGlzdJSPlIwPbGFzdF9oZWFydGJlYXRzlH2UaA2MCGRhdGV0aW1llIwIZGF0ZXRpbWWUk5RDCgfqCxgMAwAAAACUaB+MCHRpbWV6b25llJOUaB+MCXRpbWVkZWx0YZSTlEsASwBLAIeUUpSFlFKUhpRSlHN1Yi4="

// gatheredOld is the same state with pickle's protocol 2.
const gatheredOld = "gAJjdG9yY2guZGlzdHJpYnV0ZWQuZWxhc3RpYy5yZW5kZXp2b3VzLmR5bmFtaWNfcmVuZGV6dm91cwpfUmVuZGV6dm91c1N0YXRlCnEAKYFxAX1xAihYBQAAAHJvdW5kcQNLA1gIAAAAY29tcGxldGVxBIlYCAAAAGRlYWRsaW5lcQVOWAYAAABjbG9zZWRxBolYDAAAAHBhcnRpY2lwYW50c3EHfXEIKGN0b3JjaC5kaXN0cmlidXRlZC5lbGFzdGljLnJlbmRlenZvdXMuZHluYW1pY19yZW5kZXp2b3VzCl9Ob2RlRGVzYwpxCSmBcQp9cQsoWAQAAABhZGRycQxYAgAAAHcxcQ1YAwAAAHBpZHEOTZIQWAgAAABsb2NhbF9pZHEPSwB1YksAaAkpgXEQfXERKGgMWAIAAAB3MnESaA5KcBEBAGgPSwB1YksBdVgJAAAAd2FpdF9saXN0cRNjX19idWlsdGluX18Kc2V0CnEUXXEVaAkpgXEWfXEXKGgMWAIAAAB3M3EYaA5LB2gPSwF1YmGFcRlScRpYDwAAAHJlZHVuZGFuY3lfbGlzdHEbaBRdcRyFcR1ScR5YDwAAAGxhc3RfaGVhcnRiZWF0c3EffXEgaApjZGF0ZXRpbWUKZGF0ZXRpbWUKcSFjX2NvZGVjcwplbmNvZGUKcSJYCwAAAAfDqgsYDAMAAAAAcSNYBgAAAGxhdGluMXEkhnElUnEmY2RhdGV0aW1lCnRpbWV6b25lCnEnY2RhdGV0aW1lCnRpbWVkZWx0YQpxKEsASwBLAIdxKVJxKoVxK1JxLIZxLVJxLnN1Yi4="

// gatheredNaive was made by torch 2.4.1; torch 1.13 makes the same without a redundancy list. The
// times have no zone, and w4 is a spare.
const gatheredNaive = "gASVlAEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiYwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lGgAjAlfTm9kZURlc2OUk5QpgZR9lCiMBGFkZHKUjAJ3MZSMA3BpZJRNkhCMCGxvY2FsX2lklEsAdWJLAHOMCXdhaXRfbGlzdJSPlChoDCmBlH2UKGgPjAJ3M5RoEUsHaBJLAXVikIwPcmVkdW5kYW5jeV9saXN0lI+UKGgMKYGUfZQoaA+MAnc0lGgRSwloEksBdWKQjA9sYXN0X2hlYXJ0YmVhdHOUfZQoaA2MCGRhdGV0aW1llIwIZGF0ZXRpbWWUk5RDCgfqCxgMAwAHoSCUhZRSlGgMKYGUfZQoaA9oF2gRSwdoEksBdWJoIUMKB+oLGAwEJAAAAJSFlFKUdXViLg=="

// asked is the time at which the states are read: 95 s after the last heartbeat of w1's launcher.
var asked = time.Date(2026, 11, 24, 12, 4, 35, 0, time.UTC)

func TestReadState(t *testing.T) {
	silent := func(seconds float64) *float64 { return &seconds }
	of := func(first *float64) *facts.Gathering {
		return &facts.Gathering{Round: 3,
			Joined:  []facts.Gatherer{{Address: "w1", PID: 4242, Silent: first}, {Address: "w2", PID: 70000}},
			Waiting: []facts.Gatherer{{Address: "w3", PID: 7}},
		}
	}
	for value, want := range map[string]*facts.Gathering{
		gathered:    of(silent(95)),
		gatheredOld: of(nil), // protocol 2 has no bytes type
		gatheredNaive: {Round: 3,
			Joined:  []facts.Gatherer{{Address: "w1", PID: 4242, Silent: silent(94.5)}},
			Waiting: []facts.Gatherer{{Address: "w3", PID: 7, Silent: silent(-1)}},
			Spare:   []facts.Gatherer{{Address: "w4", PID: 9}},
		},
	} {
		got, err := ReadState([]byte(value), asked)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
}

// TestReadStateOfOthers checks that a value that is not a state causes an error and has no other
// effect.
func TestReadStateOfOthers(t *testing.T) {
	for name, value := range map[string]string{
		"unset": "Y2FuaW1hZGFt" /* "canimadam", as the backend writes it */, "no base64": "?", "empty": "",
		"a global":       base64.StdEncoding.EncodeToString([]byte("cos\nsystem\n(S'true'\ntR.")), // os.system, written in protocol 0
		"recalls":        base64.StdEncoding.EncodeToString([]byte("h\x07.")),
		"breaks off":     gathered[:400],
		"a great length": base64.StdEncoding.EncodeToString([]byte("X\xff\xff\xff\x7f")),
		"no mark":        base64.StdEncoding.EncodeToString([]byte("}u.")),
		"nothing":        base64.StdEncoding.EncodeToString([]byte(".")),
	} {
		if got, err := ReadState([]byte(value), asked); !errors.Is(err, ErrNoState) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzReadState(f *testing.F) {
	f.Add([]byte(gathered))
	f.Add([]byte(gatheredOld))
	f.Add([]byte(gatheredNaive))
	f.Fuzz(func(t *testing.T, value []byte) {
		if got, err := ReadState(value, asked); (got == nil) != (err != nil) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
