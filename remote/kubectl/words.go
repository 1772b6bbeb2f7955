// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"errors"
	"strings"

	"preflight/internal/lazyregexp"
	"preflight/remote"
	"preflight/remote/engine"
)

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
