package checks

import (
	"math"
	"strconv"
)

// sizeToState is a size as a person would have chosen it, and otherwise a hundredth less:
// a tmpfs and the limits that follow the memory are some pages smaller with the next
// kernel, and no launch shall stop for that.
func sizeToState(bytes string) string {
	size, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	for i, unit := range []string{"TiB", "GiB", "MiB"} {
		if one := int64(1) << (40 - 10*i); size > 0 && size%one == 0 {
			return strconv.FormatInt(size/one, 10) + unit
		}
	}
	switch {
	case size > 1<<20:
		return strconv.FormatInt((size-size/noise)>>20, 10) + "MiB"
	case size > 0 && size%1024 == 0:
		return strconv.FormatInt(size/1024, 10) + "KiB"
	case size > 0 && size < 1024: // which is no size without its unit: see [ReadSize]
		return bytes + "B"
	}
	return bytes
}

// noise is of which one part a size may differ that nobody has set.
const noise = 100

// together makes one group of sizes that differ by noise, with the least of them.
func together(groups []FactGroup) []FactGroup {
	all := FactGroup{}
	least, most := int64(math.MaxInt64), int64(0)
	for _, g := range groups {
		size, err := strconv.ParseInt(string(g.Value), 10, 64)
		if err != nil || size <= 0 {
			return groups
		}
		if size < least {
			least, all.Value = size, g.Value
		}
		most = max(most, size)
		all.Nodes = append(all.Nodes, g.Nodes...)
	}
	if most-least > most/noise {
		return groups
	}
	return []FactGroup{all}
}
