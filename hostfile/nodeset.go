// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxNames is the maximum number of names in one node set, so that a typo (node[1-99999999]) is
	// an error and does not use up the memory.
	maxNames = 100_000
	// maxDigits is the maximum number of digits, so that every number of a node set fits into an
	// int64.
	maxDigits = 18
)

// Expand lists the names of a node set in the order written. The last bracket varies fastest, and
// repeated names are kept:
//
//	node[01-03,07]      zero padding by the first number, as pdsh 2.34 and Slurm 22.05 do
//	node[1-9/2]         steps, as ClusterShell 1.9
//	rack[1-2]n[1-2]-ib  several brackets, and a suffix
//	user@a,b c          items separated by commas or white space; empty items are skipped
//	[fe80::1]           a bracketed address is a name
//
// Expand refuses operators that need another source of names (-x, ^file, @group, a!b), and sets of
// more than 100,000 names.
func Expand(set string) ([]string, error) {
	items, err := splitSet(set)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range items {
		expanded, err := expandItem(item, maxNames-len(names))
		if err != nil {
			return nil, fmt.Errorf("node set %q: %w", item, err)
		}
		names = append(names, expanded...)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("node set %q names no host", set)
	}
	return names, nil
}

// splitSet splits a set at commas and white space outside brackets.
func splitSet(set string) ([]string, error) {
	var items []string
	start, open := 0, false
	end := func(at int) {
		if at > start {
			items = append(items, set[start:at])
		}
		start = at + 1
	}
	for i := range len(set) {
		switch c := set[i]; {
		case c == '[' && open:
			return nil, fmt.Errorf("node set %q: a bracket inside a bracket", set)
		case c == ']' && !open:
			return nil, fmt.Errorf(`node set %q: "]" without "["`, set)
		case c == '[' || c == ']':
			open = c == '['
		case !open && (c == ',' || c == ' ' || c == '\t' || c == '\n'):
			end(i)
		}
	}
	if open {
		return nil, fmt.Errorf(`node set %q: "[" without "]"`, set)
	}
	end(len(set))
	return items, nil
}

func expandItem(item string, room int) ([]string, error) {
	if strings.ContainsAny(item[:1], "-^/@!") || strings.ContainsAny(item, "!&") {
		return nil, fmt.Errorf("operators, groups and files are not supported: list the hosts")
	}
	names := []string{""}
	for item != "" {
		literal, after, bracketed := strings.Cut(item, "[")
		for i := range names {
			names[i] += literal
		}
		if !bracketed {
			break
		}
		inside, rest, _ := strings.Cut(after, "]")
		item = rest
		alternatives, err := expandBracket(inside, room)
		if err != nil {
			return nil, err
		}
		if len(alternatives) > room/len(names) {
			return nil, errTooMany
		}
		product := make([]string, 0, len(names)*len(alternatives))
		for _, name := range names {
			for _, alternative := range alternatives {
				product = append(product, name+alternative)
			}
		}
		names = product
	}
	if len(names) > room {
		return nil, errTooMany
	}
	return names, nil
}

var errTooMany = fmt.Errorf("more than %d hosts; check the range", maxNames)

func expandBracket(inside string, room int) ([]string, error) {
	if strings.Contains(inside, ":") {
		if _, err := netip.ParseAddr(inside); err != nil {
			return nil, fmt.Errorf("[%s] is neither a range nor an IPv6 address", inside)
		}
		return []string{"[" + inside + "]"}, nil
	}
	var all []string
	for part := range strings.SplitSeq(inside, ",") {
		numbers, err := expandRange(part, room-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, numbers...)
	}
	return all, nil
}

// expandRange expands "7", "01-03" or "1-9/2".
func expandRange(text string, room int) ([]string, error) {
	bounds, stepText, stepped := strings.Cut(text, "/")
	lowText, highText, ranged := strings.Cut(bounds, "-")
	if !ranged {
		highText = lowText
	}
	low, lowOK := setNumber(lowText)
	high, highOK := setNumber(highText)
	step, stepOK := int64(1), true
	if stepped {
		step, stepOK = setNumber(stepText)
		stepOK = stepOK && step > 0 && ranged
	}
	switch {
	case !lowOK || !highOK || !stepOK:
		return nil, fmt.Errorf("[%s] is not a number, a range like 01-16 or a stepped one like 1-9/2", text)
	case low > high:
		return nil, fmt.Errorf("[%s] runs backwards", text)
	case highText[0] == '0' && len(highText) > len(lowText):
		// pdsh expands [1-010] without padding, and ClusterShell refuses it.
		return nil, fmt.Errorf("[%s] pads its numbers to different widths", text)
	case (high-low)/step >= int64(room):
		return nil, errTooMany
	}
	var numbers []string
	for n := low; n <= high; n += step {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(lowText), n))
	}
	return numbers, nil
}

func setNumber(text string) (int64, bool) {
	if text == "" || len(text) > maxDigits || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Fold writes names as a node set: "node[01-03,07]". [Expand] returns the same names for it. Fold
// drops repeated names. Names that differ in one number are joined at the place of the first name,
// with their numbers in ascending order. If a name has several numbers, Fold chooses the number
// that joins most names, or the last of several equal ones.
//
// Fold does not change a name that contains node-set syntax itself ("n[1-2]", "a,b", "[fe80::1]").
// Of these names, Expand can read back only an IPv6 address.
func Fold(names []string) string {
	names = unique(names)
	shapes := shapesFor(names)
	var order []shape
	members := map[shape][]numbered{}
	for i, name := range names {
		s := shapes[i]
		if _, seen := members[s]; !seen {
			order = append(order, s)
		}
		members[s] = append(members[s], newNumbered(name, s))
	}
	items := make([]string, len(order))
	for i, s := range order {
		items[i] = s.write(members[s])
	}
	return strings.Join(items, ",")
}

// shape is a name with one of its numbers taken out. A name without numbers has a shape of its own,
// in which plain is set.
type shape struct {
	before, after string
	plain         bool
}

// shapesFor returns, for every name, the shape that the name shares with the most names. Of several
// equal shapes it returns the rightmost. All names use the same counts, so their order does not
// matter.
func shapesFor(names []string) []shape {
	shapes := make([]shape, len(names))
	shared := make(map[shape]int, len(names))
	for _, name := range names {
		for s := range shapesOf(name) {
			shared[s]++
		}
	}
	for i, name := range names {
		best := shape{before: name, plain: true}
		most := 0
		for s := range shapesOf(name) {
			if n := shared[s]; n >= most {
				best, most = s, n
			}
		}
		shapes[i] = best
	}
	return shapes
}

func shapesOf(name string) iter.Seq[shape] {
	return func(yield func(shape) bool) {
		if strings.ContainsAny(name, "[], \t\n") {
			return
		}
		for i := 0; i < len(name); {
			end := i
			for end < len(name) && name[end] >= '0' && name[end] <= '9' {
				end++
			}
			if width := end - i; width > 0 && width <= maxDigits && !yield(shape{before: name[:i], after: name[end:]}) {
				return
			}
			i = end + 1
		}
	}
}

type numbered struct {
	value int64
	text  string
}

func newNumbered(name string, s shape) numbered {
	if s.plain {
		return numbered{}
	}
	text := name[len(s.before) : len(name)-len(s.after)]
	value, _ := strconv.ParseInt(text, 10, 64) // cannot fail, because text has at most maxDigits digits
	return numbered{value: value, text: text}
}

func (s shape) write(members []numbered) string {
	if len(members) == 1 {
		return s.before + members[0].text + s.after
	}
	slices.SortFunc(members, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(len(a.text), len(b.text)))
	})
	var out strings.Builder
	out.WriteString(s.before)
	out.WriteByte('[')
	for i := 0; i < len(members); {
		last := i
		for last+1 < len(members) && follows(members[i], members[last], members[last+1]) {
			last++
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(members[i].text)
		if last > i {
			out.WriteByte('-')
			out.WriteString(members[last].text)
		}
		i = last + 1
	}
	out.WriteByte(']')
	out.WriteString(s.after)
	return out.String()
}

// follows reports whether next continues the range from first to last. A padded range keeps its
// width, because ClusterShell refuses [08-100], although pdsh would accept it.
func follows(first, last, next numbered) bool {
	if next.value != last.value+1 {
		return false
	}
	if first.text[0] == '0' && len(first.text) > 1 {
		return len(next.text) == len(first.text)
	}
	return next.text[0] != '0'
}

func unique[T comparable](all []T) []T {
	seen := make(map[T]bool, len(all))
	var out []T
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return out
}
