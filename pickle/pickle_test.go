// SPDX-License-Identifier: Apache-2.0

package pickle

import "testing"

// TestRead: values that the states of launchers do not have, as python 3.11 pickles them.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want any
	}{
		"float": {"\x80\x02G?\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		"long":  {"\x80\x02\x8a\x08\x15\x95\xb9\xfee\xff\xea\x18.", int64(1795528214990918933)},
		"minus": {"\x80\x02J\xff\xff\xff\xff.", int64(-1)},
		"none":  {"\x80\x02N.", nil},
	} {
		if got, err := Read([]byte(test.text)); got != test.want || err != nil {
			t.Errorf("%s: want %v, got %v, %v", name, test.want, got, err)
		}
	}
}

// TestReadItself: a list that is its own member is read, and is not walked.
func TestReadItself(t *testing.T) {
	got, err := Read([]byte("\x80\x02]q\x00h\x00a."))
	if list, is := got.(*Object); err != nil || !is || len(list.Keys) != 1 || list.Keys[0] != got {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00X\x01\x00\x00\x00aq\x01G?\xf8\x00\x00\x00\x00\x00\x00s."))
	f.Add([]byte("\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01K\x02e."))
	f.Fuzz(func(t *testing.T, text []byte) {
		if value, err := Read(text); value != nil && err != nil {
			t.Errorf("%v, %v", value, err)
		}
	})
}
