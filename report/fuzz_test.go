// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzRead checks that Read reads any saved run or refuses it with a message. A run that was read
// must be the same after writing and reading it again.
func FuzzRead(f *testing.F) {
	f.Add(`{"schema":1,"nodes":[{"name":"w1","slots":1,"reached":true,"facts":{"host":{"kernel":"6.1"},"shm":{"size":64}},"missing":{"gpu":"x"}}],"launch":{"hosts":[{"name":"w1","slots":[0]}]}}`)
	f.Add(`{"schema":1,"normalized":true,"nodes":[{"facts":{"net":{"interfaces":[{"name":"eth0"}]},"env":{"vars":[{"name":"A_TOKEN","value":"x"}]}}}],"findings":[{"check":"x","fix":["a"]}]}`)
	f.Add(`{"schema":1,"nodes":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := Read(strings.NewReader(text))
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 1000+len(text) {
				t.Errorf("%q is refused by %q", text, err)
			}
			return
		}
		var once, twice bytes.Buffer
		if err := JSON(&once, read); err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := Read(bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("%q is written as %s, which is refused: %v", text, once.String(), err)
		}
		if err := JSON(&twice, again); err != nil || once.String() != twice.String() {
			t.Errorf("%q is written as\n%s\nand then as\n%s (%v)", text, once.String(), twice.String(), err)
		}
	})
}
