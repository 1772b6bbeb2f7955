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

// blanks are the words that stand in a command for what no message told, and what to put there.
var blanks = map[string]string{
	"NODE":          "each node of the hostfile: the log does not say which",
	"MASTER_ADDR":   "what the launch was given as --master_addr; where nothing, the first node of the hostfile",
	"MASTER_PORT":   "what the launch was given as --master_port; where nothing, 29500",
	"ENDPOINT_HOST": "the host in what torchrun was given as --rdzv_endpoint",
	"ADDRESS":       "the address of the node that is not reached",
	"PEER":          "another node's address",
	"SERVER":        "the server in what `findmnt` tells of the directory",
	"NAME":          "each name of the hostfile: the log does not say which",
	"INTERFACE":     "the interface that went down, by its name in `ip -br link`",
	"SLOT":          "the slot of the device, as `lspci` tells it",
	"IMAGE":         "the image that the launch names",
	"NETWORK":       "a name of your own",
	"MODULE":        "the module that the traceback imports",
	"DIRECTORY":     "the directory of the launch, or of what could not be read",
	"FILE":          "what could not be found or written",
	"INIT_FILE":     "the file in init_method's file://",
}

// blanksIn are the words that stay in a sentence that is filled with values.
func blanksIn(sentence string, values map[string]string) (words []string) {
	for _, found := range placeholder.FindAllStringSubmatch(sentence, -1) {
		if _, told := asArgument(found[1], values[found[1]]); !told && blanks[found[2]] != "" {
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

// segments are the sizes of what NCCL keeps in /dev/shm by default, worked out
// from the types of each release; buffer sizes set by hand give others.
var segments = map[uint64]string{
	// The pool of operations that the proxy of each rank has as soon as anything
	// goes over a network: struct ncclProxyOpsPool.
	4194656:  "the proxy buffers of one rank (NCCL 2.13 to 2.19)",
	5767520:  "the proxy buffers of one rank (NCCL 2.20)",
	7340384:  "the proxy buffers of one rank (NCCL 2.21, 2.22)",
	10486112: "the proxy buffers of one rank (NCCL 2.23)",
	14156128: "the proxy buffers of one rank (NCCL 2.24)",
	31850880: "the proxy buffers of one rank (NCCL 2.25)",
	33030528: "the proxy buffers of one rank (NCCL 2.26, 2.27)",
	34210176: "the proxy buffers of one rank (NCCL 2.28 to 2.30)",
	// One direction of one channel between GPUs that cannot reach each other: a
	// page, and the buffers of each protocol that the release has.
	4096:    "the sending end of one shared-memory channel between two GPUs",
	4460544: "one shared-memory channel between two GPUs (NCCL 2.3, 2.4)",
	9637888: "one shared-memory channel between two GPUs",
	6492160: "one shared-memory channel between two GPUs (Arm)",
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
		if what, known := segments[size]; known {
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
