// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"preflight/remote"
	"preflight/remote/engine"
	"preflight/testhosts/carriertest"
)

func TestMain(m *testing.M) { carriertest.Main(m, nil) }

// stub is an mpirun that lets a node's login run the command. Like a real mpirun, it keeps its own
// standard output open until the command has ended, and ends the command on SIGTERM.
const stub = `#!/bin/sh
case $1 in --version) echo "$STUB_VERSION"; exit ;; esac
while :; do
	case $1 in
	--host|-hosts) node=${2%:1}; shift 2 ;;
	-n|-wdir|--wdir|--bind-to) shift 2 ;;
	--mca) shift 3 ;;
	*) break ;;
	esac
done
exec 3<&0
setsid "$STUB_LOGINS/$node" "$@" <&3 3<&- &
exec 0</dev/null 3<&-
rank=$!
trap 'kill -s KILL -- -$rank' TERM
wait $rank
`

func stubbed(t *testing.T, version string, logins map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for node, login := range logins {
		if err := os.Symlink(login, filepath.Join(dir, node)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mpirun"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STUB_LOGINS", dir)
	t.Setenv("STUB_VERSION", version)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestFaults(t *testing.T) {
	raise := func(t *testing.T, logins map[string]string) { stubbed(t, "HYDRA build details:", logins) }
	carriertest.Faults(t, carriertest.Stand{Blind: true, Raise: raise, Open: func(t *testing.T, logins map[string]string) remote.Carrier {
		carrier, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return carrier
	}})
}

func TestStrangers(t *testing.T) {
	stubbed(t, "mpirun of nobody\x1b[31m", nil)
	if _, err := New(nil); err == nil || !strings.Contains(err.Error(), "neither Open MPI's mpirun nor Hydra") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := New(nil); err == nil || !strings.Contains(err.Error(), "needs mpirun in PATH") {
		t.Errorf("%v", err)
	}
}

// TestWords: the launch's options that say how daemons start are passed on before ours. The other
// options are not passed on.
func TestWords(t *testing.T) {
	t.Setenv("OMPI_MCA_plm_rsh_args", "-p 2222")
	open, hydra := kindOf("mpirun (Open MPI) 4.1.4\n"), kindOf("HYDRA build details:\n    Version: 4.0.2")
	for _, test := range []struct {
		name string
		got  []string
		want string
	}{
		{"ranks' words", open.daemonArgs([]string{"--bind-to", "core", "--mca", "btl", "^openib", "-x", "A", "--mca"}), ""},
		{"daemons' words", open.daemonArgs([]string{"--mca", "oob_tcp_if_include", "eth1", "--mca", "btl", "tcp", "--prefix", "/opt/ompi", "--allow-run-as-root"}), "--mca oob_tcp_if_include eth1 --prefix /opt/ompi --allow-run-as-root"},
		{"hydra's", hydra.daemonArgs([]string{"-genv", "A", "b", "-iface", "eth1"}), "-iface eth1"},
		{"of one node", openMPI("w1", nil, []string{"true"}), "--mca plm_rsh_args -p 2222 -o BatchMode=yes -o ConnectTimeout=5 --bind-to none --host w1:1 -n 1 --wdir / true"},
		{"of the launch", openMPI("w1", []string{"--mca", "plm_rsh_args", "-p 2200"}, []string{"true"}), "--mca plm_rsh_args -p 2200 -o BatchMode=yes -o ConnectTimeout=5 --bind-to none --host w1:1 -n 1 --wdir / true"},
	} {
		if got := strings.Join(test.got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestExplain checks recorded messages of mpirun, its ssh and its daemons (Open MPI 4.1.4, MPICH
// 4.0.2), line by line.
func TestExplain(t *testing.T) {
	const banner = "ORTE was unable to reliably start one or more daemons.; This usually is caused by:; * not finding the required libraries and/or binaries on"
	for _, test := range []struct {
		said  string
		came  engine.State
		cause remote.Cause
	}{
		{"ssh: connect to host w2 port 22: Connection refused; " + banner, engine.Failed, remote.Refused},
		{"ssh: connect to host w4 port 22: Connection timed out", engine.Going, remote.TimedOut},
		{"ssh: Could not resolve hostname nohost: Temporary failure in name resolution", engine.Going, remote.NameUnknown},
		{"root@w3: Permission denied (publickey).; " + banner, engine.Failed, remote.KeysRefused},
		{"Host key verification failed.", engine.Going, remote.HostKeyUnknown},
		{"bash: line 1: /nowhere/orted: No such file or directory; " + banner, engine.Failed, remote.DaemonMissing},
		{"bash: line 1: /root/bin/hydra_pmi_proxy: No such file or directory", engine.Going, remote.DaemonMissing},
		{"mpirun.openmpi has detected an attempt to run as root.", engine.Going, remote.RootRefused},
		{"A process or daemon was unable to complete a TCP connection; to another process:", engine.Going, remote.NoCallBack},
		{`[proxy:0:0@w2] HYDU_sock_connect (utils/sock/sock.c:141): unable to connect from "w2" to "mpC-head" (Connection refused)`, engine.Going, remote.NoCallBack},
		{banner, engine.Going, ""},
		{banner, engine.Failed, remote.MPIRunFailed},
		{"Warning: Permanently added 'w2' to the list of known hosts.", engine.Going, ""},
		{"somebody's banner: Permission denied (publickey) is what you get", engine.Going, ""},
		{"", engine.Failed, ""},
		{"a warning of the command's", engine.Broke, remote.ConnectionLost},
	} {
		failure := explain(test.said, test.came)
		if got := failure; (got == nil) != (test.cause == "") || got != nil && got.Cause != test.cause {
			t.Errorf("%q: %v, want %q", test.said, got, test.cause)
		}
	}
}
