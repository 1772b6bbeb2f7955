package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/dustin/go-humanize"
)

// Apart puts two sizes into words that differ where the sizes do: "12 GiB" is
// no explanation where 12 GiB are wanted.
func Apart(got, want int64) (gotText, wantText string) {
	gotText, wantText = humanize.IBytes(uint64(got)), humanize.IBytes(uint64(want))
	if got != want && gotText == wantText {
		return Exactly(got), Exactly(want)
	}
	return gotText, wantText
}

func Exactly(size int64) string {
	return fmt.Sprintf("%s (%s bytes)", humanize.IBytes(uint64(size)), humanize.Comma(size))
}

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

func List(parts []string) string {
	if more := len(parts) - MostListed; more > 0 {
		parts = append(slices.Clone(parts[:MostListed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// MostListed is how many facts of one cause are told.
const MostListed = 8
