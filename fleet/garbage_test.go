// SPDX-License-Identifier: Apache-2.0

package fleet

import "testing"

func TestMayCome(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		full, kept, through int64
		want                int
	}{
		"a run that begins":    {104 * mib, 4 * mib, 5 * mib, 2000},
		"hardly anything kept": {104 * mib, 0, 0, 2600}, // 2600 percent of the 4 MiB that the Go runtime assumes
		"half of it":           {100 * mib, 50 * mib, 60 * mib, 83},
		"nearly full":          {100 * mib, 90 * mib, 100 * mib, leastGarbage},
		"more than it may":     {100 * mib, 900 * mib, 1000 * mib, leastGarbage},
	} {
		if got := mayCome(c.full, c.kept, c.through); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
