package checks

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// apart puts two sizes into words that differ where the sizes do: "12 GiB" is
// no explanation where 12 GiB are wanted.
func apart(got, want int64) (gotText, wantText string) {
	gotText, wantText = humanize.IBytes(uint64(got)), humanize.IBytes(uint64(want))
	if got != want && gotText == wantText {
		return exactly(got), exactly(want)
	}
	return gotText, wantText
}

func exactly(size int64) string {
	return fmt.Sprintf("%s (%s bytes)", humanize.IBytes(uint64(size)), humanize.Comma(size))
}
