// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"strings"
	"testing"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestPCIeLinks checks that the best link is the lower one of device and slot. A value that is not
// reported must not count. Neither must a slot that is slower than the link running in it.
func TestPCIeLinks(t *testing.T) {
	for _, c := range []struct{ current, best, slot, now, most string }{
		{"32.0 GT/s PCIe 16", "32.0 GT/s PCIe 16", "32.0 GT/s PCIe 16", "32.0 GT/s PCIe x16", "32.0 GT/s PCIe x16"},
		{"8.0 GT/s PCIe 4", "16.0 GT/s PCIe 16", "8.0 GT/s PCIe 8", "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x8"},
		{"Unknown 0", "16.0 GT/s PCIe 16", " ", "", "16.0 GT/s PCIe x16"},
		{"16.0 GT/s PCIe 255", "16.0 GT/s PCIe 255", "16.0 GT/s PCIe 16", "", ""},
		{"16.0 GT/s PCIe 16", "16.0 GT/s PCIe 16", "2.5 GT/s PCIe 16", "16.0 GT/s PCIe x16", "16.0 GT/s PCIe x16"},
		{"16.0 GT/s PCIe 16", "16.0 GT/s PCIe 16", "16.0 GT/s PCIe 1", "16.0 GT/s PCIe x16", "16.0 GT/s PCIe x16"},
	} {
		files := map[string]string{}
		for name, link := range map[string]string{"device/current": c.current, "device/max": c.best, "max": c.slot} {
			cut := strings.LastIndex(link, " ")
			files["/slot/"+name+"_link_speed"], files["/slot/"+name+"_link_width"] = link[:cut], link[cut+1:]
		}
		now, most := machine.PCIeLinks(probetest.Write(t, machine.Options{}, files).At("/slot/device"))
		if now.String() != c.now || most.String() != c.most {
			t.Errorf("%+v: %q, %q", c, now, most)
		}
	}
}
