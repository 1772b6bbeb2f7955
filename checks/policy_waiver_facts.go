package checks

import (
	"regexp"
	"slices"
	"strings"
)

// isFact is whether nodes may tell a fact by such a path, which may have "*" in it for any
// text.
func isFact(path string) bool {
	return slices.ContainsFunc(knownFacts(), func(known knownFact) bool { return patternsMeet(path, known.Path) })
}

// entryName is the name of an entry, that of a VLAN ("eth0.100") among them.
var entryName = regexp.MustCompile(`^[^.]+(\.\d+)*$`)

// isOfDrift is whether drift may tell of such a path beside those of isFact: that of a fact
// that is a node's own, or of an entry that came or went as a whole, "net.interfaces.eth1".
func isOfDrift(path string) bool {
	return slices.ContainsFunc(ownFacts, func(own string) bool { return patternsMeet(path, own) }) ||
		slices.ContainsFunc(knownFacts(), func(known knownFact) bool {
			list, _, ofEntries := strings.Cut(known.Path, "*.")
			name, within := strings.CutPrefix(path, list)
			return ofEntries && within && entryName.MatchString(name)
		})
}

// patternsMeet is whether some text is as both patterns have it, in which "*" is any text.
func patternsMeet(a, b string) bool {
	rest := make([][]bool, len(a)+1) // whether what follows i of a and j of b meets
	for i := len(a); i >= 0; i-- {
		rest[i] = make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			inA, inB := i < len(a), j < len(b)
			switch {
			case !inA && !inB:
				rest[i][j] = true
			case inA && a[i] == '*':
				rest[i][j] = rest[i+1][j] || inB && rest[i][j+1]
			case inB && b[j] == '*':
				rest[i][j] = rest[i][j+1] || inA && rest[i+1][j]
			default:
				rest[i][j] = inA && inB && a[i] == b[j] && rest[i+1][j+1]
			}
		}
	}
	return rest[0][0]
}
