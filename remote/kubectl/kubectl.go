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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/internal/text"
	"preflight/remote"
	"preflight/remote/engine"
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

// execution is one kubectl exec. Its failures name the pod.
type execution struct {
	remote.Connection
	detail map[string]string
}

// enter returns a kubectl exec into a pod. words are its options. kubectl puts the command into the
// URL of its request, for which proxies may allow only a few kilobytes. The command is therefore
// sent on standard input.
func (c *Carrier) enter(pod string, words []string, detail map[string]string) execution {
	by := engine.Engine{
		Name: Name, Typed: true, Explain: explain,
		Program: func(pod string, argv []string) *exec.Cmd {
			return exec.Command(c.program, slices.Concat([]string{"exec", "--stdin", pod}, words, []string{"--"}, argv)...)
		},
	}
	return execution{detail: detail, Connection: by.Connect(pod)}
}

func (e execution) Broken() *remote.Error { return e.detailed(e.Connection.Broken()) }

// detailed adds the pod to a failure. It returns nil for nil.
func (e execution) detailed(failure *remote.Error) *remote.Error {
	if failure != nil {
		if failure.Detail == nil {
			failure.Detail = map[string]string{}
		}
		maps.Copy(failure.Detail, e.detail)
	}
	return failure
}

func (e execution) LookOut(ctx context.Context) remote.Lookout {
	return lookout{e.Connection.LookOut(ctx), e}
}

type lookout struct {
	remote.Lookout
	execution execution
}

func (l lookout) Tell(failure *remote.Error) {
	l.Lookout.Tell(failure)
	l.execution.detailed(failure)
}

// words lists kubectl's error messages. The first match is the cause. The list includes messages of
// the API server and of container runtimes.
//
// Sources: kubernetes/kubectl 1.20 to 1.32, pkg/cmd/util/helpers.go (StandardErrorMessage) and
// pkg/cmd/exec/exec.go; kubernetes/client-go, tools/clientcmd/errors.go and
// plugin/pkg/client/auth/exec; kubernetes/apiserver,
// pkg/endpoints/handlers/responsewriters/errors.go and pkg/registry/generic; kubernetes/kubernetes,
// pkg/kubelet/kubelet_pods.go and pkg/registry/core/pod/strategy.go; opencontainers/runc 1.1,
// libcontainer/init_linux.go; containers/crun 1.8, src/libcrun/container.c.
var words = []struct {
	cause   remote.Cause
	pattern *lazyregexp.Regexp
}{
	{remote.NoShell, lazyregexp.New(`exec: "?/bin/sh"?: (stat /bin/sh: )?no such file|executable file "?.?/bin/sh"? not found|exec: "/bin/sh": permission denied`)},
	{remote.NotLoggedIn, lazyregexp.New(`\(Unauthorized\)|You must be logged in|provide credentials|Please enter (Username|Password)|getting credentials: |no Auth Provider found|exec plugin`)},
	{remote.Forbidden, lazyregexp.New(`\(Forbidden\)|is forbidden: `)},
	{remote.NoPod, lazyregexp.New(`\(NotFound\): (pods|namespaces) |pod does not exist|unable to upgrade connection: pod `)},
	{remote.NoPodContainer, lazyregexp.New(`container \S+ (is not valid for|not found in) pod`)},
	{remote.PodPending, lazyregexp.New(`pod \S+ does not have a host assigned|timed out waiting for the condition`)},
	{remote.PodEnded, lazyregexp.New(`cannot exec (in|into) a (deleted|container in a completed)`)},
	{remote.PodUnready, lazyregexp.New(`unable to upgrade connection: container not found|container (is )?not running|container not created|is in CONTAINER_EXITED state|task \S+ not found`)},
	{remote.KubeletDown, lazyregexp.New(`error dialing backend|proxy error from|dial tcp \S+:10250`)},
	{remote.NoCluster, lazyregexp.New(`The connection to the server .* was refused|Unable to connect to the server|context was not found|context "\S*" does not exist|no configuration has been provided|Missing or incomplete configuration|[Ee]rror loading config|error: stat .*: no such file|x509: |TLS handshake|no such host|i/o timeout|\(ServiceUnavailable\)|\(Timeout\)|\(InternalError\): an error on the server`)},
	{remote.ConnectionLost, lazyregexp.New(`unexpected EOF|err="EOF"|connection reset by peer|websocket: close|lost connection to pod|http2: client connection lost|error reading from error stream|broken pipe`)},
}

// known returns the cause that kubectl's message matches, nil for none.
func known(output string) *remote.Error {
	for _, w := range words {
		if w.pattern.MatchString(output) {
			return &remote.Error{Cause: w.cause, Detail: map[string]string{}, Err: errors.New(complaint(output))}
		}
	}
	return nil
}

// commandEnded matches kubectl's report of the end of a command that had been started.
//
// Source: kubernetes/kubectl, pkg/cmd/util/helpers.go over client-go's util/exec.CodeExitError.
var commandEnded = lazyregexp.New(`command terminated with exit code \d+`)

// explain returns why a kubectl exec has come no further. If kubectl ended before its command,
// kubectl lost the connection and may have printed nothing: release 1.20 ends successfully if its
// connection is cut.
func explain(output string, came engine.State) *remote.Error {
	failure := known(output)
	switch {
	case came == engine.Broke && (failure == nil || failure.Cause != remote.KubeletDown):
		return &remote.Error{Cause: remote.ConnectionLost, Err: errors.New(cmp.Or(complaint(output), "kubectl ended before the command did"))}
	case came == engine.Failed && failure == nil && output != "" && !commandEnded.MatchString(output):
		return &remote.Error{Cause: remote.SessionRefused, Err: errors.New(complaint(output))}
	}
	return failure
}

// noise matches log lines of kubectl's libraries, which repeat kubectl's own messages with a
// timestamp.
var noise = lazyregexp.New(`^[EWI]\d{4} \d\d:\d\d:\d\d`)

// complaint returns kubectl's messages without the log lines of its libraries.
func complaint(output string) string {
	var kept []string
	for _, line := range strings.Split(output, "; ") {
		if line = strings.TrimSpace(line); line != "" && !noise.MatchString(line) {
			kept = append(kept, line)
		}
	}
	if kept == nil {
		return output
	}
	return strings.Join(kept, "; ")
}
