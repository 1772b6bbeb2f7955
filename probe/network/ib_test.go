// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestIB(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	for name, want := range map[string]*facts.IB{
		"ib-mlx5": {
			Devices: []facts.HCA{{
				Name: "mlx5_0", Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838", GUID: "9c63:c003:0012:5e6a",
				Kind: "CA", Driver: "mlx5_core", Verbs: "/dev/infiniband/uverbs0", Path: []string{"pci0000:15", "0000:15:01.0", "0000:18:00.0"},
				PCIe: "32.0 GT/s PCIe x16", MaxPCIe: "32.0 GT/s PCIe x16",
				Ports: []facts.IBPort{{
					Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "InfiniBand", Rate: 400e9, Width: "4X", LID: 0x1c, SMLID: 1, NetDev: "ibp24s0",
					GIDs:  []facts.GID{{Index: 0, GID: "fe80:0000:0000:0000:9c63:c003:0012:5e6a", Type: "IB/RoCE v1"}},
					PKeys: []string{"0xffff", "0x8001"}, PKeySlots: []int{0, 2},
				}},
			}, {
				Name: "mlx5_1", Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838", GUID: "9c63:c003:0012:5e7a", NUMANode: 1,
				Kind: "CA", Driver: "mlx5_core", Verbs: "/dev/infiniband/uverbs1", Path: []string{"pci0000:97", "0000:97:01.0", "0000:9a:00.0"},
				PCIe: "16.0 GT/s PCIe x8", MaxPCIe: "16.0 GT/s PCIe x16",
				Ports: []facts.IBPort{{
					Port: 1, State: "DOWN", Physical: "Disabled", LinkLayer: "InfiniBand", Rate: 10e9, Width: "4X", LID: 0xffff,
					GIDs:  []facts.GID{{Index: 0, GID: "fe80:0000:0000:0000:9c63:c003:0012:5e7a"}},
					PKeys: []string{"0xffff"},
				}},
			}},
			Verbs:   []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"},
			Peermem: true,
			Libraries: []facts.RDMALibrary{
				{Name: "libibverbs.so.1", Path: "/lib64/libibverbs.so.1"}, {Name: "libmlx5.so.1", Path: "/usr/lib64/libmlx5.so.1"},
				{Name: "libnccl-net.so", Path: "/usr/lib64/libnccl-net.so"}, {Name: "libnccl-tuner-example.so", Path: "/usr/lib64/libnccl-tuner-example.so"},
			},
		},
		"ib-roce": {
			Devices: []facts.HCA{{
				Name: "i40iw0", NUMANode: -1, Kind: "RNIC", Verbs: "/dev/infiniband/uverbs1", Path: []string{"pci0000:00", "0000:00:02.0", "0000:02:00.0"},
				PCIe: "8.0 GT/s PCIe x8", MaxPCIe: "8.0 GT/s PCIe x8",
				Ports: []facts.IBPort{{Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "Ethernet", Rate: 10e9, Width: "4X"}},
			}, {
				Name: "mlx5_2", Type: "MT4126", NUMANode: -1, Kind: "CA", Verbs: "/dev/infiniband/uverbs2", Path: []string{"pci0000:20", "0000:20:01.0", "0000:21:00.2"},
				Ports: []facts.IBPort{{Port: 1, State: "DOWN", LinkLayer: "Ethernet"}},
			}, {
				Name: "mlx5_bond_0", Type: "MT4125", Firmware: "22.36.1010", Board: "MT_0000000359", GUID: "b83f:d203:00aa:1c20", NUMANode: -1, Verbs: "/dev/infiniband/uverbs0",
				Ports: []facts.IBPort{{
					Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "Ethernet", Rate: 100e9, Width: "2X", NetDev: "bond0",
					GIDs: []facts.GID{
						{Index: 0, GID: "fe80:0000:0000:0000:ba3f:d2ff:feaa:1c20", Type: "IB/RoCE v1"},
						{Index: 2, GID: "0000:0000:0000:0000:0000:ffff:0a00:0003", Type: "RoCE v2"},
						{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:0a00:0003"},
					},
					PKeys: []string{"0xffff"},
				}},
			}, {
				Name: "rxe0", NUMANode: -1, Kind: "CA",
				Ports: []facts.IBPort{{Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Rate: 25e8, Width: "1X"}},
			}},
			Verbs:     []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"},
			Refused:   []facts.DeviceNode{{Path: "/dev/infiniband/uverbs1", Problem: "is a directory"}},
			Libraries: []facts.RDMALibrary{},
		},
	} {
		got, err := CollectIB(t.Context(), probetest.Machine(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v; (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNoAdapterIsAFactAndNoSysfsIsNot(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	got, err := CollectIB(t.Context(), probetest.Write(t, machine.Options{}, map[string]string{"/sys/class/net/bonding_masters": ""}))
	if diff := cmp.Diff(&facts.IB{Devices: []facts.HCA{}, Verbs: []string{}, Libraries: []facts.RDMALibrary{}}, got); diff != "" || err != nil {
		t.Errorf("error %v; (-want +got):\n%s", err, diff)
	}
	if got, err := CollectIB(t.Context(), machine.Options{Root: t.TempDir()}); err == nil {
		t.Errorf("a machine without /sys is told as %+v", got)
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]struct {
		rate  int64
		width string
	}{
		"400 Gb/sec (4X NDR)": {400e9, "4X"},
		"2.5 Gb/sec (1X SDR)": {25e8, "1X"},
		"25 Gb/sec (1X EDR)":  {25e9, "1X"},
		"100 Gb/sec":          {100e9, ""},
		"fast":                {},
		"":                    {},
	} {
		if rate, width := parseRate(text); rate != want.rate || width != want.width {
			t.Errorf("parseRate(%q) = %d, %q, want %d, %q", text, rate, width, want.rate, want.width)
		}
	}
}

func TestParseState(t *testing.T) {
	for text, want := range map[string]string{"4: ACTIVE": "ACTIVE", "5: LinkUp": "LinkUp", "6: LinkErrorRecovery": "LinkErrorRecovery", "odd": "odd", "": ""} {
		if got := parseState(text); got != want {
			t.Errorf("parseState(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestParseLID(t *testing.T) {
	for text, want := range map[string]int{"0x1c": 28, "0x0": 0, "": 0, "x": 0} {
		if got := parseLID(text); got != want {
			t.Errorf("parseLID(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestRDMALibraries checks that LD_LIBRARY_PATH leads to plugins and libraries before the loader's
// own directories. An empty or relative entry in it starts at the working directory.
func TestRDMALibraries(t *testing.T) {
	o := probetest.Write(t, machine.Options{WorkDir: "/job"}, map[string]string{
		"/opt/hpcx/libnccl-net.so": "", "/usr/lib/libnccl-net.so": "", "/opt/aws/libnccl-net-ofi.so": "", "/job/libnccl-tuner.so": "",
		"/job/lib/libibverbs.so.1": "", "/usr/lib/libibverbs.so.1": "", "/usr/lib/libnccl.so.2": "", "/usr/lib/libnccl-netting.so": "", "/elsewhere/libmlx5.so.1": "",
	})
	for path, want := range map[string][]facts.RDMALibrary{
		"":                          {{Name: "libibverbs.so.1", Path: "/usr/lib/libibverbs.so.1"}, {Name: "libnccl-net.so", Path: "/usr/lib/libnccl-net.so"}},
		"/opt/none:/opt/hpcx;lib":   {{Name: "libibverbs.so.1", Path: "/job/lib/libibverbs.so.1"}, {Name: "libnccl-net.so", Path: "/opt/hpcx/libnccl-net.so"}},
		"/opt/aws:/opt/hpcx::/job/": {{Name: "libibverbs.so.1", Path: "/usr/lib/libibverbs.so.1"}, {Name: "libnccl-net-ofi.so", Path: "/opt/aws/libnccl-net-ofi.so"}, {Name: "libnccl-net.so", Path: "/opt/hpcx/libnccl-net.so"}, {Name: "libnccl-tuner.so", Path: "/job/libnccl-tuner.so"}},
	} {
		if diff := cmp.Diff(want, rdmaLibraries(o, path)); diff != "" {
			t.Errorf("LD_LIBRARY_PATH=%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestPluginOfExportedPath checks that the LD_LIBRARY_PATH that the launch exports is used, as in
// the ranks' loader.
func TestPluginOfExportedPath(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/opt/other")
	o := probetest.Write(t, machine.Options{}, map[string]string{"/opt/gib/libnccl-net.so": "", "/opt/other/libnccl-tuner.so": "", "/sys/class/net/lo/mtu": ""})
	o.Exports = map[string]string{"LD_LIBRARY_PATH": "/opt/gib"}
	ib, err := CollectIB(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []facts.RDMALibrary{{Name: "libnccl-net.so", Path: "/opt/gib/libnccl-net.so"}}
	if diff := cmp.Diff(want, ib.Libraries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPluginOfTheLoaderCache checks a plugin in a separate directory that only the loader's cache
// lists.
func TestPluginOfTheLoaderCache(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/opt/amazon/ofi/libnccl-net.so": "", "/etc/hosts": ""})
	probetest.LoaderCache(t, o.At("/etc/ld.so.cache"), machine.LoaderFlags, [2]string{"libnccl-net.so", "/opt/amazon/ofi/libnccl-net.so"}, [2]string{"libmlx5.so.1", "/gone/libmlx5.so.1"})
	want := []facts.RDMALibrary{{Name: "libnccl-net.so", Path: "/opt/amazon/ofi/libnccl-net.so"}}
	if diff := cmp.Diff(want, rdmaLibraries(o, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
