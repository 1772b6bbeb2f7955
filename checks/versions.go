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
