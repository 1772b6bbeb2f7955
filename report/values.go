// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
)

// Value says a fact's JSON value for a person, in its unit.
func Value(fact string, raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "absent"
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return text.Escape(string(raw))
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return `""`
		}
		return text.Escape(v)
	case float64:
		return counted(fact, v, string(raw))
	case []any:
		var parts []string
		for _, part := range v {
			parts = append(parts, text.Escape(inWords(part)))
		}
		return strings.Join(parts, ", ")
	}
	return text.Escape(string(raw))
}

// inWords is an entry of a list: its fields by their names where it has some, as in
// "lines NCCL_DEBUG=INFO path ~/.deepspeed_env", and those that say nothing left out.
func inWords(entry any) string {
	var parts []string
	switch v := entry.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if words := inWords(v[name]); words != "" {
				parts = append(parts, name+" "+words)
			}
		}
	case []any:
		for _, part := range v {
			parts = append(parts, inWords(part))
		}
	case nil:
	default:
		return fmt.Sprint(v)
	}
	return strings.Join(parts, " ")
}

// Beyond is what a list has that another has not; ok is whether both are lists.
func Beyond(g, other checks.FactGroup) (line string, ok bool) {
	var own, theirs []string
	if json.Unmarshal(g.Value, &own) != nil || json.Unmarshal(other.Value, &theirs) != nil {
		return "", false
	}
	extra := slices.DeleteFunc(own, func(entry string) bool { return slices.Contains(theirs, entry) })
	if len(extra) == 0 {
		return "none of these", true
	}
	return "with " + text.Escape(strings.Join(extra, ", ")), true
}

// counted is a number of a fact in what it is counted in, "64 MiB", "3.1 ms", and raw
// where that is nothing. The page's counted says the same.
func counted(fact string, number float64, raw string) string {
	switch unit := facts.Unit(fact); {
	case number < 0 && strings.HasPrefix(fact, string(facts.SectionLimits)+"."):
		return "unlimited"
	case unit == "bytes" && number >= 0:
		return humanize.IBytes(uint64(number))
	case unit == "bit/s":
		return text.BitRate(number)
	case unit == "s":
		return text.Duration(number)
	case unit != "":
		return raw + " " + unit
	}
	return raw
}
