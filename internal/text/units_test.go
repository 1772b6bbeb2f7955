// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.000041: "41 µs", 0.00083949: "839 µs", 0.00099949: "999 µs", 0.0009996: "1 ms", 0.00339: "3.4 ms", 0.0101: "10 ms", 4e-8: "0 µs", -3.25: "-3.3 s",
		0.3404: "340 ms", 0.9996: "1 s", 1: "1 s", 1.7: "1.7 s", 9.96: "10 s", 12.4: "12 s", 119.4: "119 s", 120: "2 min", 1800: "30 min",
		5400: "90 min", 7200: "2 h", 86400: "24 h", 172800: "2 days", 1e7: "116 days", -1.71: "-1.7 s",
	} {
		if got := Duration(seconds); got != want {
			t.Errorf("Duration(%v) = %q, want %q", seconds, got, want)
		}
	}
}
