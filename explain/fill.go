package explain

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

var (
	placeholder = regexp.MustCompile(`\{(\w+)(?:\|([^{}]*))?\}`)
	// harmless is what may stand in a command that a person will paste: values come
	// from a log, and whoever wrote that is not trusted.
	harmless = regexp.MustCompile(`^[A-Za-z0-9._/@%+,=:][A-Za-z0-9._/@%+,=:-]*$`)
)

// fill puts what a message told into a sentence: {name}, or {name|words} with the
// words to use where it was not told. Without them the sentence cannot be filled.
func fill(sentence string, told map[string]string, form func(name, value string) (string, bool)) (string, bool) {
	complete := sentence != ""
	filled := placeholder.ReplaceAllStringFunc(sentence, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		if value, ok := form(parts[1], told[parts[1]]); ok {
			return value
		}
		if !strings.Contains(found, "|") {
			complete = false
		}
		return parts[2]
	})
	if !complete {
		return "", false
	}
	return filled, true
}

// inWords is a value as it reads in a sentence.
func inWords(name, value string) (string, bool) {
	if name == "bytes" {
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			return humanize.IBytes(n), true
		}
	}
	return value, value != ""
}

// asArgument is a value as it stands in a command.
func asArgument(_, value string) (string, bool) { return value, harmless.MatchString(value) }

func with(told map[string]string, name, value string) map[string]string {
	all := maps.Clone(told)
	if _, known := all[name]; !known && all != nil && value != "" {
		all[name] = value
	}
	return all
}

// Plain are sentences with nothing filled in: the words for what is not told, or the
// name of it.
func Plain(sentences []string) []string {
	plain := make([]string, len(sentences))
	for i, sentence := range sentences {
		plain[i] = placeholder.ReplaceAllStringFunc(sentence, func(found string) string {
			parts := placeholder.FindStringSubmatch(found)
			if strings.Contains(found, "|") {
				return parts[2]
			}
			return strings.ToUpper(parts[1])
		})
	}
	return plain
}
