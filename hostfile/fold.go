package hostfile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Fold writes names as a node set that [Expand] reads back to the same set:
// "node[01-03,07]". Repeats are dropped. Names that differ in one number stand
// together, where the first of them stood, and their numbers ascend; of
// several numbers in a name it is the one that folds most, else the last.
//
// A name that holds node-set syntax itself ("n[1-2]", "a,b", "[fe80::1]") is
// left as it is, and only an IPv6 address among those reads back.
func Fold(names []string) string {
	names = unique(names)
	shapes := make([]shape, len(names))
	choose(names, shapes)

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

// shape is a name with one of its numbers taken out. A name that has none to
// take is a shape of its own, with plain set.
type shape struct {
	before, after string
	plain         bool
}

// choose gives every name the shape that most names share, the rightmost of
// equals. Each name chooses by the same counts, so the order of names does not
// matter.
func choose(names []string, shapes []shape) {
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
}

// shapesOf yields a shape for every number in the name, from left to right.
func shapesOf(name string) func(yield func(shape) bool) {
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

// numbered is one member of a shape: its number and how that is written.
type numbered struct {
	value int64
	text  string
}

func newNumbered(name string, s shape) numbered {
	if s.plain {
		return numbered{}
	}
	text := name[len(s.before) : len(name)-len(s.after)]
	value, _ := strconv.ParseInt(text, 10, 64) // digits, and few enough
	return numbered{value: value, text: text}
}

// write puts the members' numbers in brackets, neighbours as ranges.
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

// follows is whether next continues the range from first to last. A padded
// range keeps its width: pdsh would read [08-100], but ClusterShell refuses it.
func follows(first, last, next numbered) bool {
	if next.value != last.value+1 {
		return false
	}
	if first.text[0] == '0' && len(first.text) > 1 {
		return len(next.text) == len(first.text)
	}
	return next.text[0] != '0'
}

// unique drops repeats and keeps the order.
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
