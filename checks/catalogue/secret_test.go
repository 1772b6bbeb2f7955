// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"encoding/json"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/internal/secret"
	"preflight/testhosts/secrettest"
)

// TestFixturesAreReadable checks that no text of the fixtures looks like a secret, because reports
// would hide such a text.
func TestFixturesAreReadable(t *testing.T) {
	ofFixtures(t, func(t *testing.T, check checks.Check, c fixture) {
		fleet, policy := c.build(t)
		want := encoded(t, alone(check, fleet, policy))
		secret.Within(&fleet)
		secret.Within(&policy)
		report := alone(check, fleet, policy)
		secret.Within(&report)
		if got := encoded(t, report); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%s %s: %.200s\nis %.200s", check.ID, c.name, want[max(0, at-80):], got[max(0, at-80):])
		}
	})
}

// TestNothingSecretOfFixtures puts secrets of each kind into texts of every fixture, and checks
// that no report contains them.
func TestNothingSecretOfFixtures(t *testing.T) {
	t.Parallel()
	planted := secrettest.Planting{Tokens: secrettest.Tokens(1), Each: 7}
	for _, check := range Catalogue {
		for i, c := range fixturesOf(t, check.ID) {
			fleet, policy := c.build(t)
			node := &fleet.Nodes[i%len(fleet.Nodes)]
			for _, v := range []any{node, &fleet.Launch, fleet.Head, policy.Baseline} {
				planted.In(v)
			}
			secret.Within(&fleet)
			secret.Within(&policy)
			report := alone(check, fleet, policy)
			report.Fleet.Nodes = nil
			for _, told := range planted.Found(encoded(t, []any{report, node, fleet.Head})) {
				t.Errorf("%s %s: %s", check.ID, c.name, told)
			}
		}
	}
	if planted.Count < 10*len(planted.Tokens) {
		t.Errorf("%d secrets were planted", planted.Count)
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
