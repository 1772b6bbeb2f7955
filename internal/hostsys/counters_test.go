// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinkCounters(t *testing.T) {
	root := t.TempDir()
	if got := LinkCounters(root); got != nil {
		t.Errorf("%v of a machine that shows nothing", got)
	}
	port, nic, pci := "sys/class/infiniband/mlx5_0/ports/1/", "sys/class/net/", "sys/bus/pci/devices/"
	for name, text := range map[string]string{
		port + "counters/symbol_error": "12\n", port + "counters/link_downed": "255\n", port + "counters/port_rcv_errors": "0\n",
		port + "counters/port_xmit_wait": "99\n", port + "hw_counters/rnr_nak_retry_err": "3\n", port + "hw_counters/out_of_sequence": "7000\n",
		nic + "ens5/device/vendor": "0x15b3\n", nic + "ens5/carrier_changes": "2\n", nic + "ens5/statistics/rx_crc_errors": "many\n",
		nic + "docker0/carrier_changes":       "40\n",
		pci + "0000:4e:00.0/vendor":           "0x10de\n",
		pci + "0000:4e:00.0/aer_dev_fatal":    "Undefined 0\nDLP 1\nTLP 2\nUnsupReq 9\nTOTAL_ERR_FATAL 12\n",
		pci + "0000:4f:00.0/vendor":           "0x15b3\n",
		pci + "0000:4f:00.0/aer_dev_fatal":    "DLP 0\nTOTAL_ERR_FATAL 0\n",
		pci + "0000:4f:00.0/aer_dev_nonfatal": "CmpltTO 5\nUnsupReq 9\nTOTAL_ERR_NONFATAL 14\n",
		pci + "0000:00:1f.0/vendor":           "0x8086\n",
		pci + "0000:00:1f.0/aer_dev_fatal":    "DLP 7\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{
		"mlx5_0:1 symbol_error": 12, "mlx5_0:1 link_downed": 255, "mlx5_0:1 rnr_nak_retry_err": 3, "ens5 carrier_changes": 2,
		"0000:4e:00.0 aer_fatal": 3, "0000:4f:00.0 aer_nonfatal": 5,
	}
	if diff := cmp.Diff(want, LinkCounters(root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
