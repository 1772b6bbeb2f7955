// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLasting changes every value of every section once. Lasting must keep comparable values, which
// must be unchanged after they are read back. Volatile values must be absent.
func TestLasting(t *testing.T) {
	var full Facts
	everything(reflect.ValueOf(&full).Elem(), 0)
	full.Python.SysPath = []string{"/usr/lib/python3"} // Lasting leaves out a launch's own directory
	text, err := json.Marshal(full.Lasting())
	if err != nil {
		t.Fatal(err)
	}
	var back Facts
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	for _, section := range Sections() {
		if slices.Contains(Momentary, section) {
			if back.Has(section) {
				t.Errorf("%s is there", section)
			}
			continue
		}
		values := func(f *Facts) map[string]string {
			all := map[string]string{}
			f.EachComparable(section, func(path, value string) { all[path] = value })
			return all
		}
		if diff := cmp.Diff(values(&full), values(&back)); diff != "" {
			t.Errorf("%s (-before +read back):\n%s", section, diff)
		}
	}
	for _, name := range []string{"uptime", "load", "boot_id", "listening", "free", "segments", "processes", "temperature", "aggregate_corrected"} {
		if strings.Contains(string(text), `"`+name+`":`) {
			t.Errorf("%s is there", name)
		}
	}
	if len(back.NVML.Cards[0].Refused) == 0 {
		t.Error("why something is not known is not there")
	}
}

// TestLastingOmits covers values that JSON leaves out. An empty value must not look like a change
// in a review.
func TestLastingOmits(t *testing.T) {
	f := Facts{Net: &Net{Interfaces: []Interface{{Name: "eth0"}, {Name: "eth1", Master: "bond0"}}}}
	text, err := json.Marshal(f.Lasting())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"master":`); n != 1 {
		t.Errorf("%d interfaces have a master: %s", n, text)
	}
}

func TestEachEntry(t *testing.T) {
	f := Facts{
		Net: &Net{Interfaces: []Interface{{Name: "eth0.100"}, {Name: "lo"}}},
		IB:  &IB{Devices: []HCA{{Name: "mlx5_0", Ports: []IBPort{{Port: 1}}}}},
	}
	var got []string
	for _, section := range []Section{SectionNet, SectionIB, SectionGPU} {
		f.EachEntry(section, func(path string) { got = append(got, path) })
	}
	want := []string{"net.interfaces.eth0.100", "net.interfaces.lo", "ib.devices.mlx5_0", "ib.devices.mlx5_0.ports.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnrecordedOfNonsense covers files with arbitrary values where facts should be.
func TestUnrecordedOfNonsense(t *testing.T) {
	for _, text := range []string{`{"shm":[[[7]]]}`, `{"shm":"x","host":[]}`, `{"net":{"interfaces":[[],7,null,{}]}}`, `{"host":{"cpu":[{}]}}`} {
		var saved map[string]any
		if err := json.Unmarshal([]byte(text), &saved); err != nil {
			t.Fatal(err)
		}
		lacking := Unrecorded(saved)
		if strings.HasPrefix(text, `{"net"`) != lacking["net.interfaces.*.mtu"] {
			t.Errorf("%s lacks %v", text, lacking)
		}
	}
}
