// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
)

// setting is an option of the script with all its values, or a word that belongs to no option.
type setting struct {
	name   string // option name with underscores, however it was typed; "" for a word without an option
	pair   bool   // typed as name=value
	values []string
}

// settings returns the script's settings. Those of its configuration file come first, then its
// arguments, which override the file.
func (o Options) settings() []setting { return settingsIn(slices.Concat(o.Configured, o.Arguments)) }

func settingsIn(words []string) (all []setting) {
	open := false // whether words belong to the last option
	for _, word := range words {
		name, value, isPair := strings.Cut(word, "=")
		isPair = isPair && isKey.MatchString(name)
		isOption := strings.HasPrefix(word, "--")
		switch {
		case isPair:
			all, open = append(all, setting{settingName(name), true, []string{value}}), false
		case isOption:
			all, open = append(all, setting{name: settingName(word)}), true
		case strings.HasPrefix(word, "-"):
			open = false
		case open:
			last := &all[len(all)-1]
			last.values = append(last.values, word)
		default:
			all = append(all, setting{values: []string{word}})
		}
	}
	return all
}

func settingName(typed string) string {
	return strings.ReplaceAll(strings.TrimLeft(typed, "-"), "-", "_")
}

// lastOf returns the values of the last setting with one of these names.
func lastOf(settings []setting, names ...string) (values []string, isTold bool) {
	for _, s := range slices.Backward(settings) {
		if slices.Contains(names, s.name) {
			return s.values, true
		}
	}
	return nil, false
}
