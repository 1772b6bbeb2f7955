package machine

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first asked for: an agent
// starts in every run, and most nodes have nothing of what most patterns are about.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
