// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzKnownHosts checks that, for any file, a host gets exactly the lines that apply to it, in
// order.
func FuzzKnownHosts(f *testing.F) {
	const key = " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	f.Add("w1,10.0.0.1"+key+"\n@revoked *.x,!y"+key+"\n@cert-authority w*"+key+"\n", "w1")
	f.Add("|1|c2FsdHNhbHRzYWx0c2FsdHNhbHQ=|aGFzaGhhc2hoYXNoaGFzaGhhc2g="+key+"\n#x\n[w1]:22"+key, "[w1]:22")
	f.Fuzz(func(t *testing.T, text, name string) {
		path := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, _ := new(knownHosts).lookup([]string{path}, name)
		for i, k := range keys {
			if k.key == nil || k.line < 1 || i > 0 && k.line < keys[i-1].line {
				t.Errorf("%q of %q: %+v", text, name, k)
			}
		}
	})
}
