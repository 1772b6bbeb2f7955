// SPDX-License-Identifier: Apache-2.0

package policyfile

import "testing"

// FuzzDocument checks that reading ends for any text.
func FuzzDocument(f *testing.F) {
	f.Add("expect:\n\ta: [>=5, 'b\n")
	f.Add("a: \"x, >6\" : : `")
	f.Add("- !=5, @\n- >")
	f.Fuzz(func(t *testing.T, text string) {
		file := &file{name: "p"}
		if root := file.document(text); root == nil && len(file.problems) == 0 {
			t.Errorf("%q has neither a document nor an error", text)
		}
	})
}
