package hostfile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxNames bounds what one node set may stand for, so that a slip of the
	// finger (node[1-99999999]) costs a message and not the machine's memory.
	maxNames = 100_000
	// maxDigits keeps every number of a node set within an int64.
	maxDigits = 18
)

// Expand lists the names of a node set in the order written, the last bracket
// varying fastest, repeats kept:
//
//	node[01-03,07]      zero padding by the first number, as pdsh 2.34 and Slurm 22.05 do
//	node[1-9/2]         steps, as ClusterShell 1.9
//	rack[1-2]n[1-2]-ib  several brackets, and a suffix
//	user@a,b c          commas and blanks separate; empty items are skipped
//	[fe80::1]           a bracketed address is a name as it is
//
// Operators that need another source of names (-x, ^file, @group, a!b) are
// refused, and so is a set of more than 100,000 names.
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

// splitSet splits at commas and blanks that stand outside brackets.
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

// expandItem expands one comma-free item into at most room names.
func expandItem(item string, room int) ([]string, error) {
	if strings.ContainsAny(item[:1], "-^/@!") || strings.ContainsAny(item, "!&") {
		return nil, fmt.Errorf("operators, groups and files are not read here; list the hosts")
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

// expandBracket lists what a bracket may be replaced by.
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
		// pdsh expands [1-010] without padding and ClusterShell refuses it.
		return nil, fmt.Errorf("[%s] pads its numbers to different widths", text)
	case (high-low)/step >= int64(room):
		return nil, errTooMany
	}
	var numbers []string
	for n := low; n <= high; n += step {
		numbers = append(numbers, padded(n, len(lowText)))
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

func padded(n int64, width int) string { return fmt.Sprintf("%0*d", width, n) }
