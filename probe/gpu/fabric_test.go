// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestSwitchDoors has three adapters. Two of them manage NVSwitches, according to their product
// data.
func TestSwitchDoors(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/sys/class/infiniband/mlx5_0/device/vpd":   "\x82\x2c\x00ConnectX-7\x90PN\x00V3\x20SMDL=SW_MNG\x78",
		"/sys/class/infiniband/mlx5_10/device/vpd":  "\x82\x2c\x00ConnectX-7\x90PN\x00V3\x20SMDL=SW_MNG\x78",
		"/sys/class/infiniband/mlx5_4/device/vpd":   "\x82\x2c\x00ConnectX-7\x90PN\x00V3\x20MODL=CX75310AAS\x78",
		"/sys/class/infiniband/efa_0/device/uevent": "SMDL=SW_MNG",
	})
	if diff := cmp.Diff([]string{"mlx5_0", "mlx5_10"}, switchDoors(o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.Remove(o.At("/sys/class/infiniband/mlx5_4/device/vpd")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.At("/sys/class/infiniband/mlx5_4/device/vpd"), 0o755); err != nil { // a directory cannot be read as a file, not even by root
		t.Fatal(err)
	}
	if got := switchDoors(o); got != nil {
		t.Errorf("%q of adapters that do not tell", got)
	}
	if got := switchDoors(machine.Options{Root: t.TempDir()}); got == nil || len(got) > 0 {
		t.Errorf("%#v without an adapter", got)
	}
}
