package launch

import (
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
)

// Before reports whether a version is older than a release, which must parse.
// Pre-releases and local labels count as the release they lead to; a text that
// is not a version is older than nothing.
func Before(text, release string) bool {
	v, err := version.NewVersion(text)
	return err == nil && v.Core().LessThan(version.Must(version.NewVersion(release)))
}

// Number is what NCCL makes of a numeric variable, by strtoll with base 0
// (misc/param.cc, ncclLoadParam), and whether the text starts with a number at
// all; what follows the number does not matter to it.
func Number(text string) (value int64, isNumber bool) {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	for end := len(text); end > 0; end-- {
		if value, err := strconv.ParseInt(text[:end], 0, 64); err == nil {
			return value, true
		}
	}
	return 0, false
}
