// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
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

// fill puts what a message holds into a sentence: {name}, or {name|words} with the
// words to use where it does not hold it. Without them the sentence cannot be filled.
func fill(sentence string, values map[string]string, form func(name, value string) (string, bool)) (string, bool) {
	complete := sentence != ""
	filled := placeholder.ReplaceAllStringFunc(sentence, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		if value, ok := form(parts[1], values[parts[1]]); ok {
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

func inWords(name, value string) (string, bool) {
	if name == "bytes" {
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			return humanize.IBytes(n), true
		}
	}
	return value, value != ""
}

func asArgument(_, value string) (string, bool) { return value, harmless.MatchString(value) }

// blanksIn are the words that stay in a sentence that is filled with values.
func blanksIn(sentence string, values map[string]string) (words []string) {
	for _, found := range placeholder.FindAllStringSubmatch(sentence, -1) {
		if _, told := asArgument(found[1], values[found[1]]); !told && tables().Blanks[found[2]] != "" {
			words = append(words, found[2])
		}
	}
	return words
}

func with(values map[string]string, name, value string) map[string]string {
	all := maps.Clone(values)
	if _, known := all[name]; !known && all != nil && value != "" {
		all[name] = value
	}
	return all
}

// Plain are sentences with nothing filled in: the words for what is unknown, or the
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

// counted is the reference count that stands behind a segment since NCCL 2.16:
// messages about the file tell it in, those about the segment leave it out.
const counted = 4

// derive adds what follows from what a message holds: from the size of a segment
// of NCCL what it was to hold, and from the number of a release its name.
func derive(values map[string]string) {
	if release, ok := releaseOf(values["version"]); ok {
		values["version"] = release
		if other, ok := releaseOf(values["wanted"]); ok {
			values["wanted"] = other
		}
	}
	if !strings.Contains(values["path"], "nccl-") {
		return
	}
	size, err := strconv.ParseUint(values["bytes"], 10, 64)
	if err != nil || size < counted {
		return
	}
	for _, size := range []uint64{size, size - counted} {
		if what, known := tables().Segments[size]; known {
			values["what"] = what
			return
		}
	}
}

// releaseOf reads the number by which NCCL 2 knows its release: 2804 was 2.8.4, and
// since 2.9 there are two digits for the middle, so that 22703 is 2.27.3.
func releaseOf(number string) (string, bool) {
	code, err := strconv.ParseUint(number, 10, 32)
	switch {
	case err != nil:
		return "", false
	case code >= 2_000 && code < 2_900:
		return fmt.Sprintf("2.%d.%d", code/100%10, code%100), true
	case code >= 20_900 && code < 30_000:
		return fmt.Sprintf("2.%d.%d", code/100%100, code%100), true
	}
	return "", false
}
