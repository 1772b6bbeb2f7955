// SPDX-License-Identifier: Apache-2.0

package hostfile

import "testing"

// FuzzFromSlurm checks that the hosts of any allocation are those that Slurm lists, each once.
func FuzzFromSlurm(f *testing.F) {
	f.Add("gpu[01-04,07],login1", "8(x4),4,2")
	f.Add("n[1-3]", "gpu:a100:4")
	f.Add("n1", "99999999999999999999(x99999999999)")
	f.Fuzz(func(t *testing.T, nodelist, perNode string) {
		hosts, err := FromSlurm(nodelist, perNode)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, host := range hosts {
			if host.Name == "" || seen[host.Name] || len(host.Slots) > maxRanks {
				t.Errorf("%q and %q give %q %d slots", nodelist, perNode, host.Name, len(host.Slots))
			}
			seen[host.Name] = true
		}
	})
}
