// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"maps"

	"preflight/checks/fix"
	"preflight/checks/remedy"
)

// otherwise are the failures that have other words where something else than ssh goes there.
var otherwise = map[string]map[string]failure{"srun": bySrun, "mpirun": byMPIRun, "kubectl": byKubectl, "meet": byMeeting}

// failureBy is that of a cause where there was no login: everything is of our program.
func failureBy(carrier, cause string) failure {
	own, known := otherwise[carrier]
	if !known {
		own = bySrun
	}
	families := []map[string]failure{own, common, failures[enterID], failures["agent-start"], {"interrupted": failures["ssh-reach"]["interrupted"]}}
	if carrier == "mpirun" { // goes by an ssh of its own, whose failures are told as ours
		families = append(families, failures["ssh-reach"], failures["ssh-host-key"], failures["ssh-login"], failures["ssh-shell"])
	}
	for _, causes := range families {
		if what, known := causes[cause]; known {
			return what
		}
	}
	return own["unexpected"]
}

// common are of the launching machine, whatever goes there.
var common = map[string]failure{"head-limit": headLimit, "head-stood": headStood, "head-busy": headBusy}

// union are the failures of several families of causes.
func union(families ...map[string]failure) map[string]failure {
	all := map[string]failure{}
	for _, family := range families {
		maps.Copy(all, family)
	}
	return all
}

var trySrun = fix.Here("srun --overlap{srun_options} --nodes=1 --ntasks=1 --nodelist={host} hostname")

// bySrun are those that have other words where srun goes there.
var bySrun = map[string]failure{
	"frozen": {
		summary: "srun started our program or is still about to, and nothing comes: the machine, its slurmd or a file system there hangs",
		got:     "{message}",
		fix:     []fix.Command{trySrun, fix.Here("scontrol show node {host} | grep -E 'State|Reason'"), remedy.LastWords},
	},
	"connection-lost": {
		summary: "srun ended before our program did",
		got:     "{message}",
		fix:     []fix.Command{trySrun, fix.Here("scontrol show job {slurm_job} | grep -E 'JobState|EndTime'")},
	},
	"unexpected": {
		summary: "could not be reached by srun, in a way preflight has no name for",
		got:     "{message}",
		fix:     []fix.Command{trySrun},
	},
}
