package checks

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"preflight/facts"
)

// knownFacts are the facts that nodes tell, each with what matches its paths.
var knownFacts = sync.OnceValue(func() (all []knownFact) {
	for _, d := range facts.Described() {
		all = append(all, knownFact{d, pathPattern(d.Path, ".+")})
	}
	return all
})

type knownFact struct {
	facts.Description
	path *regexp.Regexp
}

// factAt describes the fact with a path, which may have "*" in it.
func factAt(path string) (facts.Description, error) {
	for _, known := range knownFacts() {
		if known.path.MatchString(path) {
			return known.Description, nil
		}
	}
	return facts.Description{}, unknownFact(path)
}

// pathPattern matches the paths that one with "*" in it stands for.
func pathPattern(path, star string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, star) + "$")
}

// unknownFact names the fact that was likely meant: one with the same last word
// ("gpu.driver" for nvml.driver) before one that is spelt alike.
func unknownFact(path string) error {
	var paths, namesakes []string
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, d := range knownFacts() {
		paths = append(paths, d.Path)
		if strings.HasSuffix(d.Path, "."+last) {
			namesakes = append(namesakes, d.Path)
		}
	}
	near := Nearest(path, namesakes, len(path))
	if near == "" {
		near = Nearest(path, paths, max(3, len(path)/3))
	}
	if near == "" {
		return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare: preflight facts lists them", path)}
	}
	return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare: the nearest is %q", path, near)}
}

// UnknownFactError says that no node can tell such a fact, and which is near.
type UnknownFactError struct{ message string }

func (e *UnknownFactError) Error() string { return e.message }
