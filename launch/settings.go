// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
)

// setting is an option of the script with all its values.
type setting struct {
	name   string // with underscores, whatever it was typed with
	values []string
}

// settings are what the script is told, by the configuration that it is handed and then by
// its arguments, which come later and win.
func (o Options) settings() (all []setting) {
	open := false // whether words belong to the last one
	for _, word := range slices.Concat(o.Configured, o.Arguments) {
		name, value, isPair := strings.Cut(word, "=")
		isOption := strings.HasPrefix(word, "--")
		switch {
		case isOption || isPair && isKey.MatchString(name):
			one := setting{name: strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")}
			if isPair {
				one.values = []string{value}
			}
			all, open = append(all, one), isOption && !isPair
		case strings.HasPrefix(word, "-"):
			open = false
		case open:
			last := &all[len(all)-1]
			last.values = append(last.values, word)
		}
	}
	return all
}

// told are the values of the last setting by one of these names.
func told(settings []setting, names ...string) (values []string, isTold bool) {
	for _, s := range slices.Backward(settings) {
		if slices.Contains(names, s.name) {
			return s.values, true
		}
	}
	return nil, false
}
