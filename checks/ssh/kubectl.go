// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"preflight/checks"
	"preflight/checks/fix"
)

var (
	describe  = fix.Here("kubectl describe pod {host}{pods}   # its last lines are what has happened to it")
	podEvents = fix.Here("kubectl get events{pods} --field-selector=involvedObject.name={host} --sort-by=.lastTimestamp")
	tryExec   = fix.Here("kubectl exec {host}{pods} --container={container} -- /bin/sh -c hostname")
	showPods  = fix.Here("kubectl get pods --all-namespaces --show-labels{cluster}")
	showPod   = fix.Here("kubectl get pod {host}{pods} -o wide")
	podLog    = fix.Here("kubectl logs {host}{pods} --container={container} --previous --tail=50")
)

// notRunning is what a rank that is to start in a pod waits for that does not run.
const notRunning = "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 24/32 clients joined."

// inPods are what a Kubernetes cluster tells of itself and its pods.
var inPods = map[string]failure{
	"no-cluster": {
		verdict: checks.Unknown,
		summary: "no Kubernetes cluster answers, or none that is trusted, so that nothing is known of its pods: {message}",
		fix:     []fix.Command{fix.Here("kubectl cluster-info{cluster}"), fix.Here("kubectl config get-contexts   # and name the right one with --context")},
	},
	"not-logged-in": {
		verdict: checks.Unknown,
		summary: "the cluster does not know who asks: {message}",
		fix:     []fix.Command{fix.Here("kubectl auth can-i create pods/exec{pods}   # until this answers: log in as your cluster has it, and see that the plugin it names is installed")},
	},
	"forbidden": {
		verdict: checks.Unknown,
		summary: "the cluster allows nobody of this name to enter pods",
		got:     "{message}",
		fix: []fix.Command{
			fix.Here("kubectl auth can-i create pods/exec{pods}"),
			fix.Here("kubectl create role preflight --verb=get,list --resource=pods{pods} && kubectl create role preflight-exec --verb=create --resource=pods/exec{pods}   # an administrator does, and binds both to you with kubectl create rolebinding"),
		},
	},
	"no-pod": {
		blames:   host,
		summary:  "is no pod of the cluster: {message}",
		fix:      []fix.Command{showPods},
		wouldSee: notRunning,
	},
	"pod-pending": {
		blames:   host,
		summary:  "its pod does not run yet",
		got:      "{reason}",
		fix:      []fix.Command{describe, podEvents},
		wouldSee: notRunning,
	},
	"pod-unready": {
		blames:   host,
		summary:  "its pod is there, and the container of the ranks does not run",
		got:      "{reason}",
		fix:      []fix.Command{describe, podLog},
		wouldSee: notRunning,
	},
	"pod-ended": {
		blames:   host,
		summary:  "its pod has ended, or is about to",
		got:      "{reason}",
		fix:      []fix.Command{describe, fix.Here("kubectl delete pod {host}{pods}   # and what made it makes it anew")},
		wouldSee: notRunning,
	},
	"no-pod-container": {
		verdict: checks.Unknown,
		summary: "its pod has no container of the name that --container gives",
		got:     "{reason}",
		fix:     []fix.Command{fix.Here("kubectl get pod {host}{pods} -o jsonpath='{.spec.containers[*].name}'"), showPod},
	},
	"kubelet-down": {
		blames:   host,
		summary:  "the cluster does not reach the machine that its pod is on",
		got:      "{message}",
		fix:      []fix.Command{showPod, fix.Here("kubectl get nodes{cluster}   # one that is not Ready has lost its kubelet or its network")},
		wouldSee: notRunning,
	},
}

// byKubectl are those that have other words where kubectl goes there.
var byKubectl = map[string]failure{
	"no-shell": {
		verdict: checks.Unknown,
		summary: "the container has no /bin/sh to start anything with, so that preflight cannot look at it",
		got:     "{message}",
		fix: []fix.Command{
			fix.Here("kubectl debug {host}{pods} --target={container} --image=busybox -it   # looks around in it by hand"),
			fix.Note("put a shell into the image, or run preflight's own binary in an init container: preflight agent --meet"),
		},
	},
	"session-refused": {
		summary: "kubectl exec starts nothing there",
		got:     "{message}",
		fix:     []fix.Command{tryExec, describe},
	},
	"no-directory": {
		summary: "has no directory that may be written to, as with readOnlyRootFilesystem",
		got:     "{tried}",
		fix: []fix.Command{
			fix.Here("volumes: [{name: tmp, emptyDir: {}}] and volumeMounts: [{name: tmp, mountPath: /tmp}]   # in the pod's spec"),
		},
		wouldSee: "OSError: [Errno 30] Read-only file system",
	},
	"frozen": {
		summary: "kubectl started our program or is still about to, and nothing comes: the API server, the pod's machine or a file system there hangs",
		got:     "{message}",
		fix:     []fix.Command{tryExec, fix.Here("kubectl get --raw=/readyz?verbose{cluster}"), showPod},
	},
	"connection-lost": {
		summary: "kubectl lost the pod: its container ended, or a proxy before the API server cut the connection",
		got:     "{message}",
		fix:     []fix.Command{describe, showPod},
	},
	"unexpected": {
		summary: "could not be reached by kubectl, in a way preflight has no name for",
		got:     "{message}",
		fix:     []fix.Command{tryExec},
	},
}
