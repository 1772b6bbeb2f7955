// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestWire(t *testing.T) {
	tests := []struct {
		generation facts.Generation
		request    request
		want       string
	}{
		{facts.GenerationPings, request{query: queryPing, nonce: 1}, "\x0d\x01\x00\x00\x00"},
		{facts.GenerationValidates, request{query: queryAdd, keys: []string{"init/"}, delta: 1},
			"\x04\x05\x00\x00\x00\x00\x00\x00\x00init/\x01\x00\x00\x00\x00\x00\x00\x00"},
		{facts.GenerationLegacy, request{query: queryAdd, keys: []string{"init/"}, delta: -1},
			"\x03\x05\x00\x00\x00\x00\x00\x00\x00init/\xff\xff\xff\xff\xff\xff\xff\xff"},
		{facts.GenerationLegacy, request{query: queryNumKeys}, "\x06"},
		{facts.GenerationValidates, request{query: queryNumKeys}, "\x07"},
		{facts.GenerationPings, request{query: querySet, keys: []string{"k"}, value: []byte("v")},
			"\x01\x01\x00\x00\x00\x00\x00\x00\x00k\x01\x00\x00\x00\x00\x00\x00\x00v"},
		{facts.GenerationPings, request{query: queryWait, keys: []string{"k", ""}},
			"\x06\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00k\x00\x00\x00\x00\x00\x00\x00\x00"},
	}
	if got := string(greeting()); got != "\x00\xce\xf7\x85\x3c" {
		t.Errorf("VALIDATE is %q", got)
	}
	for _, tt := range tests {
		wire := tt.request.encode(tt.generation)
		if string(wire) != tt.want {
			t.Errorf("%s %+v: %q, want %q", tt.generation, tt.request, wire, tt.want)
		}
		back, err := readRequest(decoder{bytes.NewReader(wire)}, tt.generation)
		if diff := cmp.Diff(tt.request, back, cmp.AllowUnexported(request{})); diff != "" || err != nil {
			t.Errorf("%s %q is read as: %v (-want +got)\n%s", tt.generation, wire, err, diff)
		}
		for cut := 1; cut < len(wire); cut++ {
			if _, err := readRequest(decoder{bytes.NewReader(wire[:cut])}, tt.generation); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q cut short to %d: %v", wire, cut, err)
			}
		}
	}
}

func TestRequestsAreBounded(t *testing.T) {
	long := func(q query, length uint64, rest ...byte) []byte {
		return append(putInt([]byte{byte(q)}, int64(length)), rest...)
	}
	key := putString(nil, "k")
	tests := []struct {
		name string
		wire []byte
		want error
	}{
		{"a long key", long(queryGet, maxKey+1), errTooLong},
		{"a negative length", long(queryGet, 1<<63), errTooLong},
		{"a long value", putInt(append([]byte{byte(querySet)}, key...), maxValue+1), errTooLong},
		{"many keys", long(queryWait, maxKeys+1), errTooMany},
		{"a negative number of keys", long(queryCheck, 1<<63), errTooMany},
		{"an unknown type", []byte{19}, errUnknown},
		{"a second VALIDATE", greeting(), errUnknown},
	}
	for _, tt := range tests {
		if _, err := readRequest(decoder{bytes.NewReader(tt.wire)}, facts.GenerationPings); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, err := readRequest(decoder{bytes.NewReader([]byte{byte(queryPing), 0, 0, 0, 0})}, facts.GenerationValidates); !errors.Is(err, errUnknown) {
		t.Errorf("PING before 2.5: %v", err)
	}
}
