// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"strings"
	"testing"
)

func TestFanOut(t *testing.T) {
	for words, want := range map[string]int{
		"": 1024, "-f 2048": 2048, "-f64": 64, "-f 64 -f 8": 8, "-S -u 60": 1024, "-f": 1024, "-f many": 1024,
	} {
		if got := fanOut(strings.Fields(words)); got != want {
			t.Errorf("fanOut(%q) = %d, want %d", words, got, want)
		}
	}
}
