// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"preflight/checks"
	"preflight/checks/fix"
)

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
