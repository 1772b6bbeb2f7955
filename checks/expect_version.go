package checks

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// edition is a version as packages, drivers and kernels write it: 2.5.1+cu124,
// 1.13.0a0, 2.0.post1, 550.54.15, 5.15.0-107-generic. A semantic version has another
// order: to it 5.15.0-107 comes before 5.15.0, and .post1 is no version.
// Source: PEP 440; a kernel's and a distribution's build number is a later release.
type edition struct {
	release []int
	pre     []int // alpha 0, beta 1, candidate 2, and its number; nil for none
	post    []int // the later build of one release, 107; nil for none
	dev     []int // nil for none
	local   string
	tail    string // "-generic": says nothing of older or newer
}

var editionText = regexp.MustCompile(`^[vV]?(\d+(?:\.\d+)*)` +
	`(?:[-_.]?(a|alpha|b|beta|c|rc|pre|preview)[-_.]?(\d*))?` +
	`(?:-(\d+(?:\.\d+)*)\b|[-_.]?post[-_.]?(\d*))?` +
	`(?:[-_.]?dev[-_.]?(\d*))?` +
	`(?:\+([A-Za-z0-9._-]+))?` +
	`([-_.~].*)?$`)

// readEdition is nil for text that is no version.
func readEdition(text string) *edition {
	part := editionText.FindStringSubmatch(text)
	if part == nil {
		return nil
	}
	e := &edition{local: part[7], tail: part[8]}
	numbered := true
	numbers := func(text string) (all []int) {
		for digits := range strings.SplitSeq(text, ".") {
			number, err := strconv.Atoi(cmp.Or(digits, "0"))
			numbered = numbered && err == nil
			all = append(all, number)
		}
		return all
	}
	e.release = numbers(part[1])
	for len(e.release) > 1 && e.release[len(e.release)-1] == 0 {
		e.release = e.release[:len(e.release)-1]
	}
	if part[2] != "" {
		stage := map[byte]int{'a': 0, 'b': 1}[part[2][0]]
		if strings.Contains("crcpreview", part[2]) {
			stage = 2
		}
		e.pre = append([]int{stage}, numbers(part[3])...)
	}
	switch {
	case part[4] != "":
		e.post = numbers(part[4])
	case strings.Contains(text, "post"):
		e.post = numbers(part[5])
	}
	if strings.Contains(text, "dev") && e.tail == "" {
		e.dev = numbers(part[6])
	}
	if !numbered {
		return nil
	}
	return e
}

// compare orders two versions; builds ("+cu124", "-generic") have no order.
func (e *edition) compare(other *edition) int {
	return cmp.Or(
		slices.Compare(e.release, other.release),
		slices.Compare(e.stage(), other.stage()),
		slices.Compare(e.post, other.post),
		compareLast(e.dev, other.dev),
	)
}

// stage is what a release has come to: in development, on trial, out.
func (e *edition) stage() []int {
	switch {
	case e.pre != nil:
		return e.pre
	case e.post == nil && e.dev != nil:
		return []int{-1}
	}
	return []int{3}
}

// compareLast orders numbers of which none is the last.
func compareLast(a, b []int) int {
	if (a == nil) != (b == nil) {
		return cmp.Compare(len(b), len(a))
	}
	return slices.Compare(a, b)
}

// meets is whether a version is the one that is stated: as exact as it is stated.
func (e *edition) meets(stated *edition) bool {
	return e.compare(stated) == 0 && (stated.local == "" || e.local == stated.local) && (stated.tail == "" || e.tail == stated.tail)
}
