// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// configSpace returns the configuration space of a bridge. Access control is the bridge's second
// extended capability.
func configSpace(access uint16) string {
	space := make([]byte, 4096)
	binary.LittleEndian.PutUint32(space[0x100:], 0x148<<20|1<<16|0x0001) // error reporting; the next capability is at 0x148
	binary.LittleEndian.PutUint32(space[0x148:], 1<<16|acsCapability)
	binary.LittleEndian.PutUint16(space[0x148+4:], 0x5f) // the access control that the bridge supports
	binary.LittleEndian.PutUint16(space[0x148+acsControl:], access)
	return string(space)
}

func TestRedirects(t *testing.T) {
	circle := make([]byte, 4096)
	binary.LittleEndian.PutUint32(circle[0x100:], 0x100<<20|1)
	without := make([]byte, 4096)
	binary.LittleEndian.PutUint32(without[0x100:], 0x200<<20|1)
	tests := []struct {
		name, config  string
		set, readable bool
	}{
		{"off", configSpace(0), false, true},
		{"on, as the kernel sets it", configSpace(0x1d), true, true},
		{"requests alone", configSpace(0x04), true, true},
		{"completions alone", configSpace(0x08), true, true},
		{"egress control", configSpace(0x20), true, true},
		{"source validation alone", configSpace(0x01), false, true},
		{"a bridge without it", string(without), false, true},
		{"plain PCI", configSpace(0x1d)[:256], false, true},
		{"cut off", configSpace(0x1d)[:0x14c], false, false},
		{"a circle", string(circle), false, false},
	}
	for _, tt := range tests {
		o := probetest.Write(t, machine.Options{}, map[string]string{"/config": tt.config})
		if set, readable := redirects(o.At("/config")); set != tt.set || readable != tt.readable {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, set, readable, tt.set, tt.readable)
		}
	}
	if _, readable := redirects("/nowhere/config"); readable {
		t.Error("what is not there was read")
	}
}

// TestRedirectingBridges checks that one bridge that cannot be read makes the whole result unknown.
// Root ports must not be read.
func TestRedirectingBridges(t *testing.T) {
	o := hgx(t)
	gpus, _ := nvidiaOnBus(o)
	probetest.Write(t, o, map[string]string{pciDevices + "/0000:4c:02.0/config": configSpace(0)[:0x120]})
	if got := redirectingBridges(o, gpus); got != nil {
		t.Errorf("one is read in part: %q", got)
	}
	nothing := machine.Options{Root: t.TempDir()}
	for name, way := range map[string][]string{
		"a root port": {"pci0000:3a", "0000:3a:01.0", "0000:4e:00.0"},
		"a root port of a controller's own domain": {"pci0000:00", "0000:00:0e.0", "pci10000:e0", "10000:e0:01.0", "10000:e1:00.0"},
	} {
		if got := redirectingBridges(nothing, []facts.PCIGPU{{Path: way}}); got == nil || len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := redirectingBridges(nothing, []facts.PCIGPU{{Path: []string{"pci0000:3a", "0000:3a:01.0", "0000:4b:00.0", "0000:4e:00.0"}}}); got != nil {
		t.Errorf("a switch that is not there: %q", got)
	}
	if got := redirectingBridges(o, nil); got != nil {
		t.Errorf("no bus: %q", got)
	}
}

func TestIOMMU(t *testing.T) {
	const group = "/sys/kernel/iommu_groups/"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no /sys", nil, ""},
		{"no groups", map[string]string{"/sys/kernel/mm/hugepages": ""}, "off"},
		{"identity", map[string]string{group + "0/type": "identity\n", group + "1/type": "identity\n"}, "passthrough"},
		{"translating lazily", map[string]string{group + "0/type": "identity\n", group + "1/type": "DMA-FQ\n"}, "translated"},
		{"translating", map[string]string{group + "0/type": "DMA\n"}, "translated"},
		{"given away", map[string]string{group + "0/type": "unmanaged\n"}, ""},
		{"an old kernel", map[string]string{group + "0/devices": ""}, ""},
	}
	for _, tt := range tests {
		if got := iommu(probetest.Write(t, machine.Options{}, tt.files), []facts.PCIGPU{{Address: "0000:4e:00.0"}}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPCIPath(t *testing.T) {
	o := hgx(t)
	if diff := cmp.Diff([]string{"pci0000:3a", "0000:3a:01.0", "0000:4b:00.0", "0000:4c:03.0", "0000:52:00.0"}, machine.PCIPath(o.At("/sys/class/infiniband/mlx5_0/device"))); diff != "" {
		t.Errorf("an adapter (-want +got):\n%s", diff)
	}
	probetest.Write(t, o, map[string]string{
		"/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0/mlx5_core.sf.2/vendor": "",
		"/sys/devices/virtual/infiniband/rxe0/node_guid":                                                     "",
	})
	for path, want := range map[string][]string{
		"/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0/mlx5_core.sf.2": {"pci0000:00", "0000:00:0e.0", "pci10000:e0", "10000:e0:01.0", "10000:e1:00.0"},
		"/sys/devices/virtual/infiniband/rxe0":                                                        nil,
		"/sys/nowhere":                                                                                nil,
	} {
		if diff := cmp.Diff(want, machine.PCIPath(o.At(path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
