// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
)

// TestPCIeRate checks that the rate of a link is for one direction and without the line code.
func TestPCIeRate(t *testing.T) {
	for link, want := range map[string]float64{
		"32.0 GT/s PCIe x16": 32e9 * 16 * 128 / 130, "5.0 GT/s PCIe x8": 32e9, "2.5 GT/s PCIe x1": 2e9, "": 0, "fast": 0, "16.0 GT/s PCIe x": 0,
	} {
		if got := pcieRate(link); got < want*0.999 || got > want*1.001 {
			t.Errorf("%q: %g bit/s, want %g", link, got, want)
		}
	}
}
