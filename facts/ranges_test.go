// SPDX-License-Identifier: Apache-2.0

package facts

import "testing"

func TestRanges(t *testing.T) {
	for _, test := range []struct {
		numbers []int
		want    string
	}{{nil, ""}, {[]int{7}, "7"}, {[]int{0, 1}, "0-1"}, {[]int{0, 1, 2, 3, 64, 66, 67}, "0-3,64,66-67"}, {[]int{3, 1}, "3,1"}} {
		if got := Ranges(test.numbers); got != test.want {
			t.Errorf("%d are %q, want %q", test.numbers, got, test.want)
		}
	}
}
