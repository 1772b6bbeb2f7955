package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatchIfname(t *testing.T) {
	kernel := []string{"lo", "eth0", "eth1", "eth10", "ib0", "docker0", "^eth0"}
	for _, test := range []struct {
		spec string
		want []string
	}{
		{"eth1", []string{"eth1", "eth10"}},
		{"=eth1", []string{"eth1"}},
		{"^docker0,lo", []string{"eth0", "eth1", "eth10", "ib0", "^eth0"}},
		{"^=eth1,lo", []string{"eth0", "eth10", "ib0", "docker0", "^eth0"}},
		{"=^eth0", []string{"^eth0"}},            // = first makes ^ a letter
		{"ib0,=eth0", []string{"ib0"}},           // a mark counts at the start only
		{" eth1", nil},                           // blanks are not trimmed
		{"ib0, eth0", []string{"ib0"}},           //
		{"ib0,,lo", []string{"lo", "ib0"}},       // in kernel order, empty items dropped
		{"eth0:9", []string{"eth0"}},             // a port means nothing to an interface
		{"^=", nil},                              // all but everything
		{"=,", kernel},                           // an empty list is everything
		{"eth7", nil},                            //
		{strings.Repeat("x,", 16) + "eth0", nil}, // the seventeenth is not read
		{strings.Repeat("x,", 15) + "eth0", []string{"eth0"}},
	} {
		got, chosen := MatchIfname(test.spec, kernel)
		if !chosen {
			t.Errorf("MatchIfname(%q): not taken as a choice", test.spec)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("MatchIfname(%q) (-want +got):\n%s", test.spec, diff)
		}
	}
	for _, spec := range []string{"", "e", "^", "="} {
		if got, chosen := MatchIfname(spec, kernel); chosen || got != nil {
			t.Errorf("MatchIfname(%q) = %v, %v; NCCL takes it as unset", spec, got, chosen)
		}
	}
}

func TestMatchHCA(t *testing.T) {
	ports := []Device{{"mlx5_0", 1}, {"mlx5_1", 1}, {"mlx5_1", 2}, {"mlx5_10", 1}}
	for _, test := range []struct {
		spec string
		want []Device
	}{
		{"", ports},
		{"^", nil},
		{"mlx5_1", ports[1:]},
		{"=mlx5_1", ports[1:3]},
		{"=mlx5_1:2", ports[2:3]},
		{"=mlx5_1:2:0:1", ports[2:3]}, // rail and plane follow the port
		{"=mlx5_1::3", ports[1:3]},    // an empty port is any port
		{"^mlx5_1:1", []Device{ports[0], ports[2]}},
		{"mlx4", nil},
	} {
		if diff := cmp.Diff(test.want, MatchHCA(test.spec, ports)); diff != "" {
			t.Errorf("MatchHCA(%q) (-want +got):\n%s", test.spec, diff)
		}
	}
}
