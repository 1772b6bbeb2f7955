// SPDX-License-Identifier: Apache-2.0

package literal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestIndex(t *testing.T) {
	var x Index[int]
	literals := []string{"Connection refused", "refused", "Connection", "NCCL WARN ", "no connection", "Connection refused"}
	for i, literal := range literals {
		x.Add(literal, 3, i)
	}
	for text, want := range map[string]string{
		"":                           "",
		"ref":                        "",
		"Connection refused":         "[0 0 18] [1 11 18] [2 0 10] [5 0 18]",
		"no connection; NCCL WARN x": "[3 15 25] [4 0 13]",
		"nection refu":               "[0 -3 15] [2 -3 7] [5 -3 15]",
	} {
		var got []string
		x.Each([]byte(text), 6, func(i, from, to int) { got = append(got, fmt.Sprint([]int{i, from, to})) })
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	text := "a Connection refused here"
	for seam := range len(text) + 1 {
		var got, want []int
		x.Across([]byte(text), seam, func(i int) { got = append(got, i) })
		for i, literal := range literals {
			if at := strings.Index(text, literal); at >= 0 && at < seam && seam < at+len(literal) {
				want = append(want, i)
			}
		}
		if slices.Sort(got); !slices.Equal(slices.Compact(got), want) {
			t.Errorf("at %d: %v, want %v", seam, got, want)
		}
	}
}
