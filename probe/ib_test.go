package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestIB(t *testing.T) {
	for name, want := range map[string]*facts.IB{
		"ib-mlx5": {
			Devices: []facts.HCA{{
				Name: "mlx5_0", Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838", GUID: "9c63:c003:0012:5e6a",
				Ports: []facts.IBPort{{
					Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "InfiniBand", Rate: 400e9, Width: "4X", LID: 0x1c, SMLID: 1, NetDev: "ibp24s0",
					GIDs:  []facts.GID{{Index: 0, GID: "fe80:0000:0000:0000:9c63:c003:0012:5e6a", Type: "IB/RoCE v1"}},
					PKeys: []string{"0xffff", "0x8001"},
				}},
			}, {
				Name: "mlx5_1", Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838", GUID: "9c63:c003:0012:5e7a", NUMANode: 1,
				Ports: []facts.IBPort{{
					Port: 1, State: "DOWN", Physical: "Disabled", LinkLayer: "InfiniBand", Rate: 10e9, Width: "4X", LID: 0xffff,
					GIDs:  []facts.GID{{Index: 0, GID: "fe80:0000:0000:0000:9c63:c003:0012:5e7a"}},
					PKeys: []string{"0xffff"},
				}},
			}},
			Verbs:   []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"},
			Peermem: true,
		},
		"ib-roce": {
			Devices: []facts.HCA{{
				Name: "mlx5_bond_0", Type: "MT4125", Firmware: "22.36.1010", Board: "MT_0000000359", GUID: "b83f:d203:00aa:1c20", NUMANode: -1,
				Ports: []facts.IBPort{{
					Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "Ethernet", Rate: 100e9, Width: "2X", NetDev: "bond0",
					GIDs: []facts.GID{
						{Index: 0, GID: "fe80:0000:0000:0000:ba3f:d2ff:feaa:1c20", Type: "IB/RoCE v1"},
						{Index: 2, GID: "0000:0000:0000:0000:0000:ffff:0a00:0003", Type: "RoCE v2"},
						{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:0a00:0003"},
					},
					PKeys: []string{"0xffff"},
				}},
			}},
			Verbs: []string{"/dev/infiniband/uverbs0"},
		},
	} {
		got, err := collectIB(t.Context(), fixture(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v; (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNoAdapterIsAFactAndNoSysfsIsNot(t *testing.T) {
	got, err := collectIB(t.Context(), Options{}.write(t, map[string]string{"/sys/class/net/bonding_masters": ""}))
	if diff := cmp.Diff(&facts.IB{Devices: []facts.HCA{}, Verbs: []string{}}, got); diff != "" || err != nil {
		t.Errorf("error %v; (-want +got):\n%s", err, diff)
	}
	if got, err := collectIB(t.Context(), Options{Root: t.TempDir()}); err == nil {
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
