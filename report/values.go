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

// Value returns a fact's JSON value for a person, in its unit.
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

// inWords returns an entry of a list with the names of its fields, as in "lines NCCL_DEBUG=INFO
// path ~/.deepspeed_env". It leaves out empty fields.
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

// Beyond returns the entries of a list that another list lacks. ok is false if one of the two
// values is not a list.
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

// counted returns a number in the unit of its fact, "64 MiB" or "3.1 ms", and raw if the fact has
// no unit. The function counted of the HTML page returns the same.
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
