// SPDX-License-Identifier: Apache-2.0

// Package kubectl carries into the pods of a Kubernetes cluster by one `kubectl exec` a pod:
// into the container that the ranks run in, with whatever login, context and plugin the user's
// own kubectl has. Pods are asked for once, so that one that cannot be entered is told by what
// the cluster itself knows of it.
//
// It refuses to make, change or restart anything in a cluster, to wait for a pod that is not
// there yet, and to answer a question of kubectl's: it has no terminal to ask one on.
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

// Name is what traces call this carrier.
const Name = "kubectl"

// Options say which pods are nodes. Those that are empty are left to kubectl.
type Options struct {
	Namespace, Context string
	Selector           string // of labels, as kubectl takes it
	Job                string // KIND/NAME of what made the pods: see kinds
	Container          string // "" is the one that kubectl enters by default
	Timeout            time.Duration
}

// Carrier enters pods.
type Carrier struct {
	program string // kubectl's path
	options Options
	pods    []pod         // in the order of their ranks
	failure *remote.Error // why there are none; nil too where nobody may list them
}

// New asks the cluster for the pods. It fails where that cannot be asked: without kubectl, or
// for a job of a kind that is not known. What the cluster answers is told by Hosts and Dial.
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
	c.pods = chosen.of(c.pods)
	return c, nil
}

// where are the options of every kubectl. Each is one word, so that no value is an option.
func (c *Carrier) where() (words []string) {
	if c.options.Context != "" {
		words = append(words, "--context="+c.options.Context)
	}
	if c.options.Namespace != "" {
		words = append(words, "--namespace="+c.options.Namespace)
	}
	return words
}

// maxList is more than 10,000 pods are described by.
const maxList = 256 << 20

// list is what `kubectl get pods` answers.
func (c *Carrier) list(ctx context.Context, words []string) ([]pod, *remote.Error) {
	read, write := io.Pipe()
	var listed struct{ Items []pod }
	decoded := make(chan error, 1)
	go func() {
		err := json.NewDecoder(io.LimitReader(read, maxList)).Decode(&listed)
		_, _ = io.Copy(io.Discard, read)
		decoded <- err
	}()
	said, err := hostsys.Child{Path: c.program, Args: words, Limit: c.options.Timeout}.Stream(ctx, write)
	write.Close()
	notRead := <-decoded
	said = text.Escape(strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
	typed := "kubectl " + strings.Join(words, " ")
	switch {
	case ctx.Err() != nil:
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NoCluster, Err: fmt.Errorf("%s got no answer within %s", typed, text.Duration(c.options.Timeout.Seconds()))}
	case err != nil:
		failure := known(said)
		if failure == nil {
			failure = &remote.Error{Cause: remote.NoCluster, Err: errors.New(typed + ": " + hostsys.Complaint(said, err))}
		}
		failure.Stage = remote.StageResolve
		return nil, failure
	case notRead != nil:
		return nil, &remote.Error{Stage: remote.StageResolve, Cause: remote.NoCluster, Err: fmt.Errorf("the output of %s is not a list of pods: %w", typed, notRead)}
	}
	return listed.Items, nil
}

// Hosts are the pods that were chosen, in the order of their ranks. The error is an *Error.
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
		if n := p.gpus(p.container(c.options.Container)); n > 0 { // who asks for none says nothing of processes
			host.Slots = hostfile.FirstSlots(n)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// asked is what pods were asked for, as it is typed.
func (c *Carrier) asked() (words string) {
	for _, option := range [][2]string{{"--job", c.options.Job}, {"--selector", c.options.Selector}, {"--namespace", c.options.Namespace}, {"--context", c.options.Context}} {
		if option[1] != "" {
			words += " " + option[0] + " " + text.Escape(option[1])
		}
	}
	return words
}

// among is what the names are looked for in.
func (c *Carrier) among() string {
	if words := c.asked(); words != "" {
		return " among the pods of" + words
	}
	return " in the namespace of kubectl's context"
}

// Files are those of a kubectl that runs: its three streams, and what tells its end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close has nothing to end that nodes share.
func (c *Carrier) Close() error { return nil }

// podName is what Kubernetes lets a pod be called, which is no option of kubectl's.
//
// Source: kubernetes/apimachinery, pkg/util/validation/validation.go, IsDNS1123Subdomain.
var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Dial looks at what the cluster said of the pod. The way there begins with the command.
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
	if c.failure != nil && c.failure.Cause != remote.Forbidden { // who may list no pods may enter one
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
		trace.Address, trace.Banner = pod.Status.PodIP, pod.told(detail["container"])
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
