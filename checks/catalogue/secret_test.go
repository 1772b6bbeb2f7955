package catalogue

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"preflight/secret"
	"preflight/secret/secrettest"
)

// TestFixturesAreReadable: of what checks are tested with nothing is taken for a secret, and so
// nothing that they say.
func TestFixturesAreReadable(t *testing.T) {
	t.Parallel()
	for _, check := range Catalogue {
		for _, c := range fixturesOf(t, check.ID) {
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
		}
	}
}

// TestNothingSecretOfFixtures has texts of every fixture hold secrets, of each kind in turn:
// no report does.
func TestNothingSecretOfFixtures(t *testing.T) {
	t.Parallel()
	planted := secrettest.Tokens(1)
	found := secretsIn(planted)
	const each = 7 // text gets one, in every fixture another
	texts, next := 0, 0
	for _, check := range Catalogue {
		for i, c := range fixturesOf(t, check.ID) {
			fleet, policy := c.build(t)
			node := &fleet.Nodes[i%len(fleet.Nodes)]
			for _, v := range []any{node, &fleet.Launch, fleet.Head, policy.Baseline} {
				plant(reflect.ValueOf(v), func(text string) string {
					if texts++; texts%each != 0 {
						return text
					}
					next++
					return text + " " + planted[next%len(planted)].Text
				})
			}
			secret.Within(&fleet)
			secret.Within(&policy)
			report := alone(check, fleet, policy)
			report.Fleet.Nodes = nil
			for _, told := range found(encoded(t, []any{report, node, fleet.Head})) {
				t.Errorf("%s %s: %s", check.ID, c.name, told)
			}
		}
	}
	if next < 10*len(planted) {
		t.Errorf("%d secrets were planted", next)
	}
}

// secretsIn finds what is secret of tokens in a long text.
func secretsIn(tokens []secrettest.Token) func(text string) []string {
	const start = 4
	starts := map[string][]string{}
	for _, token := range tokens {
		for _, secret := range token.Secrets {
			starts[secret[:start]] = append(starts[secret[:start]], secret)
		}
	}
	return func(text string) (found []string) {
		for i := range len(text) - start {
			for _, secret := range starts[text[i:i+start]] {
				if strings.HasPrefix(text[i:], secret) {
					found = append(found, "…"+text[max(0, i-60):i+len(secret)])
				}
			}
		}
		return found
	}
}

// plant changes every text that a value holds.
func plant(v reflect.Value, change func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(change(v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			plant(v.Elem(), change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			plant(v.Field(i), change)
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i), change)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			plant(value, change)
			v.SetMapIndex(key, value)
		}
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
