// SPDX-License-Identifier: Apache-2.0

package ssh

import "slices"

// ofLaunchingMachine are the causes on the launching machine. Their words do not depend on the
// carrier.
var ofLaunchingMachine = []string{"head-limit", "head-stood", "head-busy", "interrupted"}

// failureBy returns the failure for a cause if another carrier than ssh reached the node.
func failureBy(carrier, cause string) failure {
	table := failures()
	own, known := table.Carriers[carrier]
	if !known {
		own = table.Carriers["srun"]
	}
	families := []map[string]failure{own, table.Checks[enterID], table.Checks["agent-start"]}
	if carrier == "mpirun" { // uses ssh itself, so ssh's failures apply
		families = append(families, table.Checks["ssh-reach"], table.Checks["ssh-host-key"], table.Checks["ssh-login"], table.Checks["ssh-shell"])
	}
	for _, causes := range families {
		if what, known := causes[cause]; known {
			return what
		}
	}
	if slices.Contains(ofLaunchingMachine, cause) {
		return table.Checks["ssh-reach"][cause]
	}
	return own["unexpected"]
}
