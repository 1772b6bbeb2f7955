// SPDX-License-Identifier: Apache-2.0

package ssh

import "slices"

// ofLaunchingMachine are the causes that have the same words whatever carrier goes to the nodes.
var ofLaunchingMachine = []string{"head-limit", "head-stood", "head-busy", "interrupted"}

// failureBy returns the failure of a cause where another carrier than ssh went to the node.
func failureBy(carrier, cause string) failure {
	table := failures()
	own, known := table.Carriers[carrier]
	if !known {
		own = table.Carriers["srun"]
	}
	families := []map[string]failure{own, table.Checks[enterID], table.Checks["agent-start"]}
	if carrier == "mpirun" { // goes by an ssh of its own, whose failures are told as ours
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
