// SPDX-License-Identifier: Apache-2.0

// Package kubectl reaches the pods of a Kubernetes cluster with one `kubectl exec` per pod. It
// enters the container that the ranks run in, with the login, context and plugins of the user's own
// kubectl. It lists the pods once. A pod that cannot be entered is then reported with the state
// that the cluster gave for it.
//
// The package creates, changes and restarts nothing in a cluster, and does not wait for a pod that
// does not exist yet. It cannot answer questions from kubectl, because it has no terminal.
package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/remote"
)

// Name is this carrier's name in traces.
const Name = "kubectl"

// Options selects the pods that are nodes. kubectl decides about empty options.
type Options struct {
	Namespace, Context string
	Selector           string // label selector in kubectl's syntax
	Job                string // KIND/NAME of the object that created the pods: see kinds
	Container          string // "" for the container that kubectl enters by default
	Timeout            time.Duration
}

// Carrier reaches pods with kubectl.
type Carrier struct {
	program string // kubectl's path
	options Options
	pods    []pod         // sorted by rank
	failure *remote.Error // why pods is empty; also nil if the user may not list them
}

// New lists the pods. It fails if kubectl is not installed or the job is of an unknown kind. Hosts
// and Dial return the errors from the cluster.
func New(ctx context.Context, o Options) (*Carrier, error) {
	c := &Carrier{options: o}
	chosen, err := choose(o.Job)
	if err != nil {
		return nil, err
	}
	if c.program, err = exec.LookPath("kubectl"); err != nil {
		return nil, fmt.Errorf("it needs kubectl in PATH: %w", err)
	}
	selector := strings.Trim(o.Selector+","+chosen.selector(), ",")
	var words []string
	if selector != "" {
		words = []string{"--selector=" + selector}
	}
	c.pods, c.failure = c.list(ctx, append([]string{"get", "pods", "--output=json"}, append(words, c.where()...)...))
	c.pods = chosen.podsOf(c.pods)
	return c, nil
}

// where returns the options of every kubectl call. Each option is one word with its value, so that
// no value can be read as an option.
func (c *Carrier) where() (words []string) {
	if c.options.Context != "" {
		words = append(words, "--context="+c.options.Context)
	}
	if c.options.Namespace != "" {
		words = append(words, "--namespace="+c.options.Namespace)
	}
	return words
}

// maxList is a limit in bytes above the size of the descriptions of 10,000 pods.
const maxList = 256 << 20

// list runs `kubectl get pods` and returns the pods.
func (c *Carrier) list(ctx context.Context, words []string) ([]pod, *remote.Error) {
	read, write := io.Pipe()
	var listed struct{ Items []pod }
	decoded := make(chan error, 1)
	go func() {
		err := json.NewDecoder(io.LimitReader(read, maxList)).Decode(&listed)
		_, _ = io.Copy(io.Discard, read)
		decoded <- err
	}()
	output, err := hostsys.Child{Path: c.program, Args: words, Limit: c.options.Timeout}.Stream(ctx, write)
	write.Close()
	notRead := <-decoded
	output = text.Escape(strings.ReplaceAll(strings.TrimSpace(output), "\n", "; "))
	typed := "kubectl " + strings.Join(words, " ")
	switch {
	case ctx.Err() != nil:
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NoCluster, Err: fmt.Errorf("%s got no answer within %s", typed, text.Duration(c.options.Timeout.Seconds()))}
	case err != nil:
		failure := known(output)
		if failure == nil {
			failure = &remote.Error{Cause: remote.NoCluster, Err: errors.New(typed + ": " + hostsys.Complaint(output, err))}
		}
		failure.Stage = remote.StageResolve
		return nil, failure
	case notRead != nil:
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NoCluster, Err: fmt.Errorf("the output of %s is not a list of pods: %w", typed, notRead)}
	}
	return listed.Items, nil
}

// Hosts returns the selected pods, sorted by rank. The error is an *Error.
func (c *Carrier) Hosts() ([]hostfile.Host, error) {
	if c.failure != nil {
		return nil, c.failure
	}
	if len(c.pods) == 0 {
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NoPod, Err: fmt.Errorf("no pod matches%s", c.asked())}
	}
	var hosts []hostfile.Host
	for _, p := range c.pods {
		host := hostfile.Host{Name: p.Metadata.Name}
		if n := p.gpus(p.container(c.options.Container)); n > 0 { // a pod that requests no GPUs does not show how many processes it runs
			host.Slots = hostfile.FirstSlots(n)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// asked returns the options that select the pods, as the user typed them.
func (c *Carrier) asked() (words string) {
	for _, option := range [][2]string{{"--job", c.options.Job}, {"--selector", c.options.Selector}, {"--namespace", c.options.Namespace}, {"--context", c.options.Context}} {
		if option[1] != "" {
			words += " " + option[0] + " " + text.Escape(option[1])
		}
	}
	return words
}

// among returns a text that says which options limited the search for pods.
func (c *Carrier) among() string {
	if words := c.asked(); words != "" {
		return " among the pods of" + words
	}
	return " in the namespace of kubectl's context"
}

// Files counts the files of one kubectl per node: its three streams, and the file that reports its
// end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close does nothing, because the connections share nothing.
func (c *Carrier) Close() error { return nil }

// podName matches the syntax of pod names. A name that matches cannot be read as an option of
// kubectl.
//
// Source: kubernetes/apimachinery, pkg/util/validation/validation.go, IsDNS1123Subdomain.
var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Dial checks what the cluster reported about the pod. kubectl only connects when a command starts.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	host, words := hostfile.Bare(name), c.where()
	if c.options.Container != "" {
		words = append(words, "--container="+c.options.Container)
	}
	trace := &remote.Trace{Carrier: Name, Options: words}
	fail := func(failure remote.Error) (remote.Connection, *remote.Trace, error) {
		failure.Host = name
		return nil, trace, &failure
	}
	if ctx.Err() != nil {
		return fail(remote.Error{Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)})
	}
	if c.failure != nil && c.failure.Cause != remote.Forbidden { // a user who may not list pods may still enter one
		return fail(*c.failure)
	}
	if !podName.MatchString(host) {
		return fail(remote.Error{Stage: remote.StageResolve, Cause: remote.NoPod, Err: errors.New("this is not a valid pod name")})
	}
	detail := map[string]string{"namespace": c.options.Namespace, "container": c.options.Container}
	if c.failure == nil {
		pod := find(c.pods, host)
		if pod == nil {
			return fail(remote.Error{Stage: remote.StageResolve, Cause: remote.NoPod, Detail: detail, Err: fmt.Errorf("no pod has this name%s", c.among())})
		}
		detail["namespace"], detail["container"] = pod.Metadata.Namespace, pod.container(c.options.Container)
		trace.Address, trace.Banner = pod.Status.PodIP, pod.describe(detail["container"])
		if stopped := pod.stopped(detail["container"]); stopped != nil {
			for key, value := range detail {
				stopped.Detail[key] = value
			}
			return fail(*stopped)
		}
		if c.options.Container == "" {
			words = append(words, "--container="+detail["container"])
			trace.Options = words
		}
	}
	return c.enter(host, words, detail), trace, nil
}
