// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"errors"
	"regexp"
	"strings"

	"preflight/remote"
	"preflight/remote/engine"
)

// reason is a message of mpirun, its ssh or its daemons that says why the command does not start.
type reason struct {
	line  *regexp.Regexp
	cause remote.Cause
	hard  bool // after this message mpirun cannot succeed any more, even if it continues
}

// reasons lists the known messages, the most important first.
//
// Source: openssh-portable 9.2, sshconnect.c and ssh.c. open-mpi/ompi 4.1,
// orte/tools/orterun/help-orterun.txt (root), orte/mca/oob/tcp/help-oob-tcp.txt and
// oob_tcp_connection.c (version), orte/mca/errmgr/base/help-errmgr-base.txt (daemon),
// orte/mca/rmaps/base/help-orte-rmaps-base.txt (slots); PRRTE has the same texts. pmodels/mpich
// 4.0, src/pm/hydra/utils/sock/sock.c, pm/pmiserv/pmip.c. All except those about versions and slots
// were seen with Open MPI 4.1.4 and MPICH 4.0.2.
var reasons = []reason{
	{regexp.MustCompile(`has detected an attempt to run as root`), remote.RootRefused, true},
	{regexp.MustCompile(`^ssh: Could not resolve hostname `), remote.NameUnknown, true},
	{regexp.MustCompile(`^ssh: connect to host .*: Connection refused`), remote.Refused, true},
	{regexp.MustCompile(`^ssh: connect to host .*: (Connection|Operation) timed out`), remote.TimedOut, true},
	{regexp.MustCompile(`^ssh: connect to host .*: (No route to host|Network is unreachable)`), remote.NoRoute, true},
	{regexp.MustCompile(`^Connection timed out during banner exchange`), remote.Silent, true},
	{regexp.MustCompile(`^(kex_exchange_identification|ssh_exchange_identification): `), remote.ClosedBeforeBanner, true},
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED`), remote.HostKeyChanged, true},
	{regexp.MustCompile(`^Host key verification failed`), remote.HostKeyUnknown, true},
	{regexp.MustCompile(`^(\S+: )?Permission denied \([a-z,-]+\)\.`), remote.KeysRefused, true},
	{regexp.MustCompile(`account is currently not available|^Connection closed by .* port \d+`), remote.SessionRefused, true},
	{regexp.MustCompile(`(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): (command )?not found|(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): No such file or directory|(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): error while loading shared libraries`), remote.DaemonMissing, true},
	{regexp.MustCompile(`received different version from`), remote.DaemonOther, true},
	{regexp.MustCompile(`unable to connect to server .* at port|unable to connect from "`), remote.NoCallBack, true},
	{regexp.MustCompile(`A process or daemon was unable to complete a TCP connection`), remote.NoCallBack, true},
	{regexp.MustCompile(`lost communication with a remote daemon|lost connection to|terminated (badly|unexpectedly)`), remote.ConnectionLost, false},
	{regexp.MustCompile(`not enough slots available|unable to reliably start|not present in the allocation|execvp error|was unable to (launch|find|start)`), remote.MPIRunFailed, false},
}

// explain returns the failure that the messages show, nil for none. While mpirun is still running,
// only hard reasons count.
func explain(output string, came engine.State) *remote.Error {
	lines := strings.Split(output, "; ")
	for _, r := range reasons {
		if !r.hard && came == engine.Going {
			continue
		}
		for _, line := range lines {
			if r.line.MatchString(line) {
				return &remote.Error{Cause: r.cause, Err: errors.New(line)}
			}
		}
	}
	if output == "" || came == engine.Going {
		return nil
	}
	cause := remote.MPIRunFailed
	if came == engine.Broke { // some of the text may be the command's output
		cause = remote.ConnectionLost
	}
	return &remote.Error{Cause: cause, Err: errors.New(output)}
}
