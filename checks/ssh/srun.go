package ssh

import (
	"preflight/checks/fix"
	"preflight/checks/remedy"
)

// failureBySrun is that of a cause where there was no login: everything is of our program.
func failureBySrun(cause string) failure {
	for _, causes := range []map[string]failure{bySrun, failures[enterID], failures["agent-start"], {"interrupted": failures["ssh-reach"]["interrupted"]}} {
		if what, known := causes[cause]; known {
			return what
		}
	}
	return bySrun["unexpected"]
}

var trySrun = fix.Here("srun --overlap --nodes=1 --ntasks=1 --nodelist={host} hostname")

// bySrun are those that have other words where srun goes there.
var bySrun = map[string]failure{
	"head-limit": headLimit,
	"head-stood": headStood,
	"head-busy":  headBusy,
	"frozen": {
		summary: "srun started our program or is still about to, and nothing comes: the machine, its slurmd or a file system there hangs",
		got:     "{message}",
		fix:     []fix.Command{trySrun, fix.Here("scontrol show node {host} | grep -E 'State|Reason'"), remedy.LastWords},
	},
	"connection-lost": {
		summary: "srun ended before our program did",
		got:     "{message}",
		fix:     []fix.Command{trySrun, fix.Here("scontrol show job $SLURM_JOB_ID | grep -E 'JobState|EndTime'")},
	},
	"unexpected": {
		summary: "could not be reached by srun, in a way preflight has no name for",
		got:     "{message}",
		fix:     []fix.Command{trySrun},
	},
}
