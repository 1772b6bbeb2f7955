// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"maps"

	"preflight/checks"
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

// atMeeting are what is told of nodes that call their judge.
var atMeeting = map[string]failure{
	"not-come": {
		summary: "never called: no agent was started there, or it does not find its way here",
		got:     "{message}",
		fix: []fix.Command{
			fix.Console("preflight agent --meet JUDGE:29400 --node {host}   # on {node}: says what keeps it from calling"),
			fix.Here("kubectl logs {host} --container=preflight   # where it is an init container of that name"),
		},
		wouldSee: notRunning,
	},
	"wrong-token": {
		verdict: checks.Unknown,
		summary: "somebody called by its name with another token than the judge's, and nobody with the right one",
		got:     "{message}",
		fix:     []fix.Command{fix.Note("give {nodes} and the judge the same PREFLIGHT_MEET_TOKEN, as by one Secret of the cluster")},
	},
	"name-twice": {
		summary:  "two machines called by its name",
		got:      "{message}",
		fix:      []fix.Command{fix.Here("kubectl get pods --all-namespaces -o wide   # where they are pods: which they are"), fix.Note("have every agent called by a name of its own: --node is that which the judge's list of hosts has")},
		wouldSee: "RuntimeError: duplicate rank, or ranks that wait for one another",
	},
	"other-wire": {
		verdict: checks.Unknown,
		summary: "its preflight speaks in a way that this one does not know",
		got:     "{message}",
		fix:     []fix.Command{fix.Note("use one release of preflight in the image of {nodes} and in the judge's")},
	},
}

// byMeeting are those that have other words where nodes call their judge.
var byMeeting = map[string]failure{
	"frozen": {
		summary: "called, and then nothing came until the deadline: the machine hangs, or the network has lost the connection",
		got:     "{message}",
		fix:     []fix.Command{fix.Here("kubectl get pod {host} -o wide   # on which machine it is, where it is a pod")},
	},
	"connection-lost": {
		summary: "its call ended before it had answered: the agent was ended, or a network between cut it",
		got:     "{message}",
		fix:     []fix.Command{fix.Here("kubectl describe pod {host}   # where it is a pod: what ended it")},
	},
	"unexpected": {
		summary: "its call failed, in a way preflight has no name for",
		got:     "{message}",
	},
}
