package kubectl

import (
	"errors"
	"strings"

	"preflight/lazyregexp"
	"preflight/remote"
)

// words are what kubectl says where it cannot do what it is told: the first that fits is the
// cause. The API server's own words are among them, and those of what runs the containers.
//
// Sources: kubernetes/kubectl 1.20 to 1.32, pkg/cmd/util/helpers.go (StandardErrorMessage) and
// pkg/cmd/exec/exec.go; kubernetes/client-go, tools/clientcmd/errors.go and
// plugin/pkg/client/auth/exec; kubernetes/apiserver, pkg/endpoints/handlers/responsewriters/errors.go
// and pkg/registry/generic; kubernetes/kubernetes, pkg/kubelet/kubelet_pods.go and
// pkg/registry/core/pod/strategy.go; opencontainers/runc 1.1, libcontainer/init_linux.go;
// containers/crun 1.8, src/libcrun/container.c.
var words = []struct {
	cause remote.Cause
	says  *lazyregexp.Regexp
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

// explain names what kubectl says, nil where it says nothing that is known.
func explain(said string) *remote.Error {
	for _, known := range words {
		if known.says.MatchString(said) {
			return &remote.Error{Cause: known.cause, Detail: map[string]string{}, Err: errors.New(complaint(said))}
		}
	}
	return nil
}

// noise begins lines that kubectl's libraries write beside what it has to say itself, which
// repeat it with the time.
var noise = lazyregexp.New(`^[EWI]\d{4} \d\d:\d\d:\d\d`)

// complaint is what kubectl says without what its libraries log.
func complaint(said string) string {
	var kept []string
	for _, line := range strings.Split(said, "; ") {
		if line = strings.TrimSpace(line); line != "" && !noise.MatchString(line) {
			kept = append(kept, line)
		}
	}
	if kept == nil {
		return said
	}
	return strings.Join(kept, "; ")
}
