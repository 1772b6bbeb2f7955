// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"preflight/checks/fix"
	"preflight/checks/remedy"
)

var tryMPIRun = fix.Here("mpirun --host {host}:1 -n 1 hostname   # mpirun -hosts {host} -n 1 hostname with MPICH and Intel MPI")

// byMPIRun are those that have other words where mpirun goes there.
var byMPIRun = map[string]failure{
	"frozen": {
		summary: "mpirun started our program or is still about to, and nothing comes: the machine or a file system there hangs, or what mpirun starts there does not reach the launching machine",
		got:     "{message}",
		fix:     []fix.Command{tryMPIRun, fix.Here("ssh {node} uptime"), remedy.LastWords},
	},
	"connection-lost": {
		summary: "mpirun ended before our program did, as it does for all when it loses one of its own",
		got:     "{message}",
		fix:     []fix.Command{tryMPIRun, remedy.LastWords},
	},
	"unexpected": {
		summary: "could not be reached by mpirun, in a way preflight has no name for",
		got:     "{message}",
		fix:     []fix.Command{tryMPIRun},
	},
}
