package checks

import (
	"cmp"
	"slices"
)

// compare orders two versions; builds ("+cu124", "-generic") have no order, and numbers
// that are not written are zeros.
func (e *edition) compare(other *edition) int {
	return cmp.Or(
		slices.Compare(shortest(e.release), shortest(other.release)),
		slices.Compare(e.stage(), other.stage()),
		slices.Compare(e.post, other.post),
		compareLast(e.dev, other.dev),
	)
}

func shortest(release []int) []int {
	for len(release) > 1 && release[len(release)-1] == 0 {
		release = release[:len(release)-1]
	}
	return release
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
func (e *edition) meets(stated *edition) bool { return e.compare(stated) == 0 && e.builtAs(stated) }

// begins is whether a version is one of those that what is stated stands for: 3.11 for
// 3.11.2, and 6.8.0 for 6.8.0-45-generic. Releases on trial come before them all, and
// stand for themselves alone.
func (e *edition) begins(stated *edition) bool {
	switch {
	case stated.pre != nil || stated.dev != nil:
		return e.meets(stated)
	case e.pre != nil || e.dev != nil || !e.builtAs(stated):
		return false
	case stated.post != nil:
		return slices.Equal(shortest(e.release), shortest(stated.release)) && leads(stated.post, e.post)
	}
	return leads(stated.release, e.release)
}

// leads is whether numbers begin with others; those that are not written are zeros.
func leads(first, numbers []int) bool {
	for i, number := range first {
		if i < len(numbers) && numbers[i] != number || i >= len(numbers) && number != 0 {
			return false
		}
	}
	return true
}

// builtAs is whether a version is of the build that is stated, if any is.
func (e *edition) builtAs(stated *edition) bool {
	return (stated.local == "" || e.local == stated.local) && (stated.tail == "" || e.tail == stated.tail)
}
