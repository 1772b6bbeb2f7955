package checks

import (
	"strings"

	"github.com/hashicorp/go-version"
)

// release is the first parts numbers of a version ("2.5.1+cu124" → "2.5" for
// two), or the whole text where it is not a version.
func release(text string, parts int) string {
	v, err := version.NewVersion(text)
	if err != nil {
		return text
	}
	numbers := strings.Split(v.Core().String(), ".")
	return strings.Join(numbers[:min(parts, len(numbers))], ".")
}

// before reports whether a version is older than a release, which must parse.
// Pre-releases and local labels count as the release they lead to; a text that
// is not a version is older than nothing.
func before(text, than string) bool {
	v, err := version.NewVersion(text)
	return err == nil && v.Core().LessThan(version.Must(version.NewVersion(than)))
}
