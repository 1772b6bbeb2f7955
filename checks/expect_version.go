package checks

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// edition is a version as packages, drivers and kernels write it: 2.5.1+cu124,
// 1.13.0a0, 2.0.post1, 550.54.15, 5.15.0-107-generic. A semantic version has another
// order: to it 5.15.0-107 comes before 5.15.0, and .post1 is no version.
// Source: PEP 440; a kernel's and a distribution's build number is a later release.
type edition struct {
	release []int // as many as are written: 3.10.0 says more than 3.10
	pre     []int // alpha 0, beta 1, candidate 2, and its number; nil for none
	post    []int // the later build of one release, 107; nil for none
	dev     []int // nil for none
	local   string
	tail    string // "-generic": says nothing of older or newer
}

var editionText = regexp.MustCompile(`^[vV]?(?P<release>\d+(?:\.\d+)*)` +
	`(?:[-_.]?(?P<stage>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<trial>\d*))?` +
	`(?:-(?P<build>\d+(?:\.\d+)*)\b|[-_.]?(?P<post>post[-_.]?\d*))?` +
	`(?:[-_.]?(?P<dev>dev[-_.]?\d*))?` +
	`(?:\+(?P<local>[A-Za-z0-9._-]+))?` +
	`(?P<tail>[-_.~].*)?$`)

// readEdition is nil for text that is no version.
func readEdition(text string) *edition {
	match := editionText.FindStringSubmatch(text)
	if match == nil {
		return nil
	}
	part := func(name string) string { return match[editionText.SubexpIndex(name)] }
	numbered := true
	numbers := func(text string) (all []int) {
		for digits := range strings.SplitSeq(text, ".") {
			number, err := strconv.Atoi(cmp.Or(digits, "0"))
			numbered = numbered && err == nil
			all = append(all, number)
		}
		return all
	}
	e := &edition{release: numbers(part("release")), local: part("local"), tail: part("tail")}
	if stage := part("stage"); stage != "" {
		rank := map[byte]int{'a': 0, 'b': 1}
		at, early := rank[stage[0]]
		if !early {
			at = 2
		}
		e.pre = append([]int{at}, numbers(part("trial"))...)
	}
	if build, post := part("build"), part("post"); build != "" {
		e.post = numbers(build)
	} else if post != "" {
		e.post = numbers(strings.TrimLeft(post, "post-_."))
	}
	if dev := part("dev"); dev != "" {
		e.dev = numbers(strings.TrimLeft(dev, "dev-_."))
	}
	if !numbered {
		return nil
	}
	return e
}
