// SPDX-License-Identifier: Apache-2.0

package knownbad

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/internal/text"
)

//go:embed list.yaml
var list string

// List returns the built-in entries in the order of the file.
var List = sync.OnceValue(func() (all []checks.KnownBad) {
	decoder := yaml.NewDecoder(strings.NewReader(list))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		panic("checks/knownbad: " + err.Error())
	}
	return all
})

var kebab = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// Valid returns an error that says what is wrong with an entry, or nil if the entry is valid.
func Valid(entry checks.KnownBad) error {
	switch {
	case !kebab.MatchString(entry.ID):
		return fmt.Errorf("id: %q must consist of lower-case letters, digits and dashes", entry.ID)
	case entry.Says == "":
		return errors.New("says: must describe what happens")
	case entry.Severity != checks.Error && entry.Severity != checks.Warning:
		return fmt.Errorf("severity: %q is neither error nor warning", entry.Severity)
	case len(entry.When) == 0:
		return errors.New("when: needs at least one condition")
	}
	for name, condition := range entry.When {
		if _, known := lookUp(name); !known {
			return fmt.Errorf("when: unknown word %q%s", name, text.DidYouMean(text.Meant(name, names())))
		}
		if _, err := read(condition); err != nil {
			return fmt.Errorf("when: %s: %w", name, err)
		}
	}
	return nil
}

// entries returns the entries for a view: the team's own entries, and the built-in entries whose ID
// the team does not use.
func entries(view checks.View) []checks.KnownBad {
	all := slices.Clone(view.Policy.KnownBad)
	for _, entry := range List() {
		if !slices.ContainsFunc(all, func(e checks.KnownBad) bool { return e.ID == entry.ID }) {
			all = append(all, entry)
		}
	}
	return all
}
