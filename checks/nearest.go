package checks

import "github.com/agnivade/levenshtein"

// Nearest is the word that is the fewest letters away, missing, added or changed, the
// first of equals; "" when none is within so many.
func Nearest(word string, among []string, slips int) string {
	nearest, least := "", slips+1
	for _, other := range among {
		if d := levenshtein.ComputeDistance(word, other); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}
