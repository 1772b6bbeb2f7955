// SPDX-License-Identifier: Apache-2.0

package ssh

import "slices"

// ofLaunchingMachine lists the causes that are on the launching machine. Their texts do not depend
// on the carrier, the program that reaches the nodes.
var ofLaunchingMachine = []string{"head-limit", "head-stood", "head-busy", "interrupted"}

// failureBy returns the failure for a cause if a carrier other than ssh reached the node.
func failureBy(carrier, cause string) failure {
	table := failures()
	own, known := table.Carriers[carrier]
	if !known {
		own = table.Carriers["srun"]
	}
	families := []map[string]failure{own, table.Checks[enterID], table.Checks["agent-start"]}
	if carrier == "mpirun" { // mpirun itself uses ssh, so ssh's failures apply
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
