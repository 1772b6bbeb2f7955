// SPDX-License-Identifier: Apache-2.0

package c10d

import "testing"

// TestUnpickle decodes values, as Python 3.11 pickles them, that the states in TestReadState do not
// contain.
func TestUnpickle(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want any
	}{
		"minus": {"\x80\x02J\xff\xff\xff\xff.", int64(-1)},
		"none":  {"\x80\x02N.", nil},
	} {
		if got, err := unpickle([]byte(test.text)); got != test.want || err != nil {
			t.Errorf("%s: want %v, got %v, %v", name, test.want, got, err)
		}
	}
}

// TestUnpickleItself decodes a list that contains itself.
func TestUnpickleItself(t *testing.T) {
	got, err := unpickle([]byte("\x80\x02]q\x00h\x00a."))
	if list, ok := got.(*pickled); err != nil || !ok || len(list.keys) != 1 || list.keys[0] != got {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzUnpickle(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s."))
	f.Add([]byte("\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01K\x02e."))
	f.Fuzz(func(t *testing.T, text []byte) {
		if value, err := unpickle(text); value != nil && err != nil {
			t.Errorf("%v, %v", value, err)
		}
	})
}
