// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"testing"
)

func TestDescribed(t *testing.T) {
	all := Described()
	for _, want := range []Description{
		{"shm.size", Number, "bytes"},
		{"nvml.driver", Text, ""},
		{"net.interfaces.*.mtu", Number, ""},
		{"net.interfaces.*.speed", Number, "bit/s"},
		{"limits.memlock.soft", Number, "bytes"},
		{"python.packages.*", Text, ""},
		{"python.torch.version", Text, ""},
		{"python.nccl.*.version", Text, ""},
		{"host.cpu.online", Number, ""},
		{"gpu.open_module", Truth, ""},
		{"gpu.modules", List, ""},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%+v is not described", want)
		}
	}
	for _, d := range all {
		if d.Path == "shm.free" || d.Path == "host.hostname" {
			t.Errorf("%s is described, and it is compared with nothing", d.Path)
		}
		if d.Unit != Unit(d.Path) {
			t.Errorf("%s is counted in %q and in %q", d.Path, d.Unit, Unit(d.Path))
		}
	}
}
