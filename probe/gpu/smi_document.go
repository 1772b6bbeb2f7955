// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"encoding/xml"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
)

const (
	// These are more than any version of the document nests, than a machine has
	// GPUs, than all of them have parts, and than a part has text.
	smiDepth    = 24
	smiCards    = 1 << 10
	smiElements = 1 << 17
	smiText     = 4 << 10
	// smiRefusals caps what is kept of the values that a GPU refuses.
	smiRefusals = 8
)

// element is a part of the document: other parts, or a text.
type element struct {
	name, id, text string
	parts          []*element
}

// readSMI adds the document of nvidia-smi -q -x to the facts, as far as it goes,
// and the GPUs that only a line beside it names. It returns those lines.
//
// The document's versions (nvsmi_device_v4.dtd to v13.dtd) renamed and moved parts,
// and no version is declared for a driver; so a part is looked for in all places
// that it has had.
func readSMI(text string, seen *facts.NVML) (around string) {
	document, around := cutDocument(text)
	root := parseElements(printable(document))
	seen.Driver, seen.CUDA = root.value("driver_version"), root.value("cuda_version")
	for _, part := range root.parts {
		if part.name == "gpu" && len(seen.Cards) < smiCards {
			seen.Cards = append(seen.Cards, smiCard(part))
		}
	}
	addUnreachable(around, seen)
	return around
}

// parseElements reads as much of a document as is sound. The clocks that could be
// set, most of its length, are left out.
func parseElements(document string) *element {
	root := &element{}
	open, elements := []*element{root}, 0
	decoder := xml.NewDecoder(strings.NewReader(document))
	decoder.Strict = false // names of processes are not always escaped
	for elements < smiElements && len(open) < smiDepth {
		token, err := decoder.RawToken()
		if err != nil {
			break
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			next := &element{name: token.Name.Local}
			for _, attribute := range token.Attr {
				if attribute.Name.Local == "id" {
					next.id = attribute.Value
				}
			}
			if top.name != "supported_clocks" {
				top.parts = append(top.parts, next)
				elements++
			}
			open = append(open, next)
		case xml.EndElement:
			// What is still open inside was none: a process may be called <a>.
			for i := len(open) - 1; i > 0; i-- {
				if open[i].name == token.Name.Local {
					open = open[:i]
					break
				}
			}
		case xml.CharData:
			if len(top.text) < smiText {
				top.text += string(token)
			}
		}
	}
	if len(root.parts) == 0 {
		return root
	}
	return root.parts[0]
}

// at follows names downward, the first of a name each time; nil where they end.
func (e *element) at(path string) *element {
	for name := range strings.SplitSeq(path, "/") {
		place := slices.IndexFunc(e.parts, func(part *element) bool { return part.name == name })
		if place < 0 {
			return nil
		}
		e = e.parts[place]
	}
	return e
}

// raw is the text at a place, "" where there is none.
func (e *element) raw(path string) string {
	if part := e.at(path); part != nil && len(part.parts) == 0 {
		return strings.TrimSpace(part.text)
	}
	return ""
}

// value is the text at the first of several places that tells something, "" for none.
func (e *element) value(paths ...string) string {
	for _, path := range paths {
		text := e.raw(path)
		bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		if !slices.ContainsFunc(missingValues, func(word string) bool { return strings.EqualFold(word, bare) }) {
			return text
		}
	}
	return ""
}

// missingValues are the words for what a driver or a GPU does not tell, and those of a
// GPU that fails (nvidia-smi, drivers 304 to 590).
var missingValues = append([]string{
	"", "N/A", "Not Supported", "Unknown", "Not Found", "Function Not Found", "Insufficient Permissions",
	"Requested functionality has been deprecated",
}, failureValues...)

// failureValues stand in the place of a value when the call for it failed.
var failureValues = []string{"GPU is lost", "GPU requires reset", "Unknown Error", "ERR!"}

// failures is the first value that says the GPU cannot be used, nil for none, and
// the values that a call failed for while the GPU itself may be well.
func (e *element) failures() (failure *facts.NVMLFailure, refused []facts.NVMLFailure) {
	for _, complaint := range e.complaints() {
		switch {
		case complaint.Kind == facts.FailureUnknown && len(refused) < smiRefusals:
			refused = append(refused, complaint)
		case complaint.Kind != facts.FailureUnknown && failure == nil:
			failure = &complaint
		}
	}
	return failure, refused
}

// complaints are the values that failed calls stand for. What others name,
// processes and the fabric's own state, is not looked at.
func (e *element) complaints() (all []facts.NVMLFailure) {
	for _, part := range e.parts {
		if part.name == "processes" || part.name == "fabric" {
			continue
		}
		bare := strings.Trim(strings.TrimSpace(part.text), "[]")
		if len(part.parts) == 0 && slices.Contains(failureValues, bare) {
			complaint := *smiComplaint(bare)
			complaint.Text = part.name + ": " + bare
			all = append(all, complaint)
		}
		all = append(all, part.complaints()...)
	}
	return all
}

// quantity is a number with its unit: "81559 MiB", "700.00 W", "16x", "-5 C".
var quantity = lazyregexp.New(`^(-?\d{1,12}(?:\.\d{1,9})?)(?:x| ?[A-Za-z%/]*)$`)

// number is the number at the first of several places that tells one.
func (e *element) number(paths ...string) (float64, bool) {
	match := quantity.FindStringSubmatch(e.value(paths...))
	if match == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(match[1], 64)
	return value, err == nil
}

// whole is number for what counts, 0 for not told.
func (e *element) whole(paths ...string) int {
	value, _ := e.number(paths...)
	return int(value)
}

// optional is number for where 0 is another thing than not told.
func optional[T int | int64](e *element, scale T, paths ...string) *T {
	value, ok := e.number(paths...)
	if !ok {
		return nil
	}
	return new(T(value) * scale)
}
