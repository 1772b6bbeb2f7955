// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/maruel/natural"

	"preflight/internal/text"
	"preflight/remote"
)

// pod holds the part of a pod's description that preflight reads. Its text comes from users who may
// create pods.
type pod struct {
	Metadata struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
		DeletionTimestamp   string
	}
	Spec struct {
		Containers, InitContainers []struct {
			Name      string
			Resources struct {
				Limits map[string]string
			}
		}
	}
	Status struct {
		Phase, Reason, Message, PodIP            string
		ContainerStatuses, InitContainerStatuses []status
		Conditions                               []struct{ Type, Status, Reason, Message string }
	}
}

// status is the status of one container. One of its three states is set.
type status struct {
	Name  string
	State struct {
		Running             *struct{}
		Waiting, Terminated *struct {
			Reason, Message string
			ExitCode        int
		}
	}
}

// kind is a kind of object that creates pods, with the labels that identify its pods.
type kind struct {
	names  []string
	labels string // label of a pod that holds the object's name
	also   string // another label that a pod must have to be a node
	// annotation is the annotation that holds the object's name if no label does.
	annotation string
}

// kinds lists the kinds that --job accepts.
//
// Sources: kubernetes/api, batch/v1/types.go (JobNameLabel, and job-name, which releases before
// 1.27 know too); kubeflow/training-operator, pkg/apis/kubeflow.org/v1/common_types.go;
// kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1/constants.go, where the launcher's pod has the
// job's name as well; kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go;
// kubernetes-sigs/lws, api/leaderworkerset/v1/leaderworkerset_types.go;
// kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go (PodGroupLabel);
// volcano-sh/apis, pkg/apis/scheduling/v1beta1/labels.go (KubeGroupNameAnnotationKey) and
// pkg/apis/batch/v1alpha1/labels.go (JobNameKey).
var kinds = []kind{
	{names: []string{"job"}, labels: "job-name"},
	{names: []string{"pytorchjob"}, labels: "training.kubeflow.org/job-name"},
	{names: []string{"mpijob"}, labels: "training.kubeflow.org/job-name", also: "training.kubeflow.org/job-role=worker"},
	{names: []string{"jobset"}, labels: "jobset.sigs.k8s.io/jobset-name"},
	{names: []string{"leaderworkerset", "lws"}, labels: "leaderworkerset.sigs.k8s.io/name"},
	{names: []string{"podgroup"}, labels: "scheduling.x-k8s.io/pod-group", annotation: "scheduling.k8s.io/group-name"},
	{names: []string{"vcjob"}, labels: "volcano.sh/job-name"},
}

// Kinds returns the words with which the value of --job can begin.
func Kinds() (names []string) {
	return text.Map(kinds, func(kind kind) string { return kind.names[0] })
}

// chosen is a job with its kind and name. If kind is nil, all pods are chosen.
type chosen struct {
	kind *kind
	name string
}

// choose parses KIND/NAME.
func choose(job string) (chosen, error) {
	if job == "" {
		return chosen{}, nil
	}
	typed, name, _ := strings.Cut(job, "/")
	typed = strings.ToLower(typed)
	for i := range kinds {
		if slices.ContainsFunc(kinds[i].names, func(known string) bool { return typed == known || typed == known+"s" }) {
			if !podName.MatchString(name) {
				return chosen{}, fmt.Errorf("%q is not the name of a %s: write %s/NAME", name, typed, typed)
			}
			return chosen{&kinds[i], name}, nil
		}
	}
	return chosen{}, fmt.Errorf("%q is not the KIND/NAME of a job: the kinds are %s. Use --selector to choose other pods by label", job, strings.Join(Kinds(), ", "))
}

// selector returns the label selector of the job's pods, "" if only annotations identify them.
func (c chosen) selector() string {
	if c.kind == nil || c.kind.annotation != "" {
		return ""
	}
	return strings.Trim(c.kind.labels+"="+c.name+","+c.kind.also, ",")
}

// podsOf returns the job's pods from a list, sorted by rank, without pods that were replaced.
func (c chosen) podsOf(pods []pod) []pod {
	pods = slices.DeleteFunc(pods, func(p pod) bool {
		if !podName.MatchString(p.Metadata.Name) {
			return true
		}
		return c.kind != nil && c.kind.annotation != "" && p.Metadata.Labels[c.kind.labels] != c.name && p.Metadata.Annotations[c.kind.annotation] != c.name
	})
	slices.SortFunc(pods, func(a, b pod) int {
		return cmp.Or(slices.Compare(a.place(), b.place()), natural.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	var kept []pod
	for _, p := range pods {
		replaced := p.hasEnded() && p.isPlaced() && slices.ContainsFunc(pods, func(other pod) bool { return !other.hasEnded() && slices.Equal(p.place(), other.place()) })
		if !replaced {
			kept = append(kept, p)
		}
	}
	return kept
}

// places lists the labels and annotations that give a pod's position in its job, from coarse to
// fine.
//
// Sources: as for kinds; apps.kubernetes.io/pod-index is a StatefulSet's, from 1.28.
var places = []string{
	"jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index", "leaderworkerset.sigs.k8s.io/group-index",
	"leaderworkerset.sigs.k8s.io/worker-index", "training.kubeflow.org/replica-index", "batch.kubernetes.io/job-completion-index",
	"apps.kubernetes.io/pod-index",
}

// place returns a pod's position in its job as texts that sort correctly: a master sorts before its
// workers, and numbers sort by their value.
func (p pod) place() []string {
	first := "1"
	if kind := p.Metadata.Labels["training.kubeflow.org/replica-type"]; kind == "master" || kind == "chief" {
		first = "0"
	}
	place := []string{first}
	for _, name := range places {
		value := cmp.Or(p.Metadata.Labels[name], p.Metadata.Annotations[name])
		if number, err := strconv.ParseUint(value, 10, 31); err == nil {
			value = fmt.Sprintf("%010d", number)
		}
		place = append(place, value)
	}
	return place
}

// isPlaced reports whether any label or annotation gives the pod's position.
func (p pod) isPlaced() bool {
	return slices.ContainsFunc(p.place()[1:], func(value string) bool { return value != "" })
}

// hasEnded reports whether the pod has ended or is being deleted.
func (p pod) hasEnded() bool {
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" || p.Metadata.DeletionTimestamp != ""
}

func find(pods []pod, name string) *pod {
	i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.Name == name })
	if i < 0 {
		return nil
	}
	return &pods[i]
}

// container returns the container to enter: named if it is not "", otherwise the container that
// kubectl would enter.
//
// Source: kubernetes/kubectl, pkg/cmd/util/podcmd/podcmd.go, FindOrDefaultContainerByName.
func (p pod) container(named string) string {
	if named != "" {
		return named
	}
	if usual := p.Metadata.Annotations["kubectl.kubernetes.io/default-container"]; slices.Contains(p.containers(), usual) {
		return usual
	}
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Name
}

// containers returns the names of all containers, with the init containers last.
func (p pod) containers() (names []string) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		names = append(names, c.Name)
	}
	return names
}

// describe returns a text that says which container was entered and which others the pod has.
func (p pod) describe(container string) string {
	line := "container " + container
	if len(p.Spec.Containers) > 1 {
		line += " of " + strings.Join(p.containers()[:len(p.Spec.Containers)], ", ")
	}
	return text.Escape(line + " in pod " + p.Metadata.Namespace + "/" + p.Metadata.Name)
}

// gpus returns how many GPUs a container requests. Device plugins name GPUs nvidia.com/gpu,
// amd.com/gpu and so on.
func (p pod) gpus(container string) (count int) {
	for _, c := range p.Spec.Containers {
		for name, amount := range c.Resources.Limits {
			if number, err := strconv.ParseUint(amount, 10, 10); err == nil && c.Name == container && strings.HasSuffix(name, "/gpu") {
				count += int(number)
			}
		}
	}
	return count
}

// stopped returns why no command can start in a container, nil if the cluster reports no obstacle.
func (p pod) stopped(container string) *remote.Error {
	fail := func(cause remote.Cause, words ...string) *remote.Error {
		why := text.Escape(strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), ": "))
		return &remote.Error{Stage: remote.StageConnect, Cause: cause, Detail: map[string]string{"reason": cmp.Or(why, "no reason given")}, Err: errors.New(cmp.Or(why, string(cause)))}
	}
	if p.hasEnded() {
		phase := p.Status.Phase
		if phase == "Running" || phase == "Pending" {
			phase = "it is being deleted"
		}
		return fail(remote.PodEnded, phase, p.Status.Reason, p.Status.Message)
	}
	if !slices.Contains(p.containers(), container) {
		return fail(remote.NoPodContainer, "it has "+strings.Join(p.containers(), ", ")+", and no "+container)
	}
	cause := remote.PodUnready
	if p.Status.Phase == "Pending" {
		cause = remote.PodPending
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.Name != container && (s.State.Waiting == nil || cause == remote.PodUnready):
		case s.State.Running != nil: // the container runs, and no other state matters
			return nil
		case s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing":
			return fail(cause, s.Name, s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil && s.Name == container:
			return fail(cause, s.Name, s.State.Terminated.Reason, fmt.Sprintf("it ended with status %d", s.State.Terminated.ExitCode), s.State.Terminated.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == "False" && c.Type == "PodScheduled" {
			return fail(cause, c.Reason, c.Message)
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Running != nil {
			return fail(cause, "its init container "+s.Name+" is still running")
		}
	}
	if cause == remote.PodPending {
		return fail(cause, p.Status.Reason, p.Status.Message)
	}
	return nil
}
