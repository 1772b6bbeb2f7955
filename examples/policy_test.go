// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicy lets preflight read the policy. preflight reports unknown facts, checks and
// constraints with their lines. After that the test checks a fleet with the policy.
func TestPolicy(t *testing.T) {
	text, err := os.ReadFile("policy/preflight.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Replace the node names, because the recorded nodes have other names. Replace the end of the
	// waiver, because that day will pass.
	ours := strings.NewReplacer("gpu[001-064]", "w[1-4]", "old[01-16]", "w[5-8]", "old[03-04]", "w2", "2027-03-31", "2999-12-31").Replace(string(text))
	for name, c := range map[string]struct {
		policy string
		code   int
		says   []string
	}{
		"as it is":      {string(text), 1, []string{"shm.size >= 16 GiB (preflight.yaml:", "python.packages.protobuf < 4 (preflight.yaml:", "shm-size"}},
		"for the fleet": {ours, 1, []string{"nvml.driver >= 570.86 (preflight.yaml:", "waived"}},
		"with a slip":   {strings.Replace(ours, "shm.size", "shm.sise", 1), misused, []string{`there is no fact "shm.sise"`, `did you mean "shm.size"?`}},
	} {
		d := newDesk(t, faulty, "hosts")
		if err := os.WriteFile(filepath.Join(d.dir, "preflight.yaml"), []byte(c.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := d.run(t, "/usr/bin/env", "preflight", "-H", "hosts", "--config", "preflight.yaml", "--only", "expectation,shm-size")
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, c.code, out)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, out)
			}
		}
	}
}
