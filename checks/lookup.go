package checks

import "slices"

// Lookup finds a check of the catalogue by its ID.
func Lookup(id string) (Check, bool) {
	i := slices.IndexFunc(Catalogue, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return Check{}, false
	}
	return Catalogue[i], true
}
