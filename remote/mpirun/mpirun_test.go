// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"preflight/remote"
	"preflight/remote/broadcast"
	"preflight/testhosts/carriertest"
)

func TestMain(m *testing.M) { carriertest.Main(m) }

// stub is an mpirun that has a node's login run the command, as Hydra for one node.
const stub = `#!/bin/sh
case $1 in --version) echo "$STUB_VERSION"; exit ;; esac
while :; do
	case $1 in
	--host|-hosts) node=${2%:1}; shift 2 ;;
	-n|-wdir|--wdir|--stdin) shift 2 ;;
	--mca) shift 3 ;;
	*) break ;;
	esac
done
exec "$STUB_LOGINS/$node" "$@"
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
		carrier, err := New(slices.Collect(maps.Keys(logins)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return carrier
	}})
}

func TestStrangers(t *testing.T) {
	stubbed(t, "mpirun of nobody\x1b[31m", nil)
	if _, err := New(nil, nil); err == nil || !strings.Contains(err.Error(), "neither Open MPI's nor Hydra") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := New(nil, nil); err == nil || !strings.Contains(err.Error(), "no mpirun") {
		t.Errorf("%v", err)
	}
}

// The words of a launch that say how daemons start go before ours, and the others nowhere.
func TestWords(t *testing.T) {
	t.Setenv("OMPI_MCA_plm_rsh_args", "-p 2222")
	open, hydra := engineOf("mpirun (Open MPI) 4.1.4\n"), engineOf("HYDRA build details:\n    Version: 4.0.2")
	for _, test := range []struct {
		name string
		got  []string
		want string
	}{
		{"ranks' words", open.kept([]string{"--bind-to", "core", "--mca", "btl", "^openib", "-x", "A", "--mca"}), ""},
		{"daemons' words", open.kept([]string{"--mca", "oob_tcp_if_include", "eth1", "--mca", "btl", "tcp", "--prefix", "/opt/ompi", "--allow-run-as-root"}), "--mca oob_tcp_if_include eth1 --prefix /opt/ompi --allow-run-as-root"},
		{"hydra's", hydra.kept([]string{"-genv", "A", "b", "-iface", "eth1"}), "-iface eth1"},
		{"of one node", openMPI([]string{"w1"}, nil, []string{"true"})[:10], "--mca plm_rsh_args -p 2222 -o BatchMode=yes -o ConnectTimeout=5 --stdin all --bind-to none --host w1:1 -n"},
		{"of the launch", openMPI([]string{"w1", "w2"}, []string{"--mca", "plm_rsh_args", "-p 2200"}, []string{"true"})[:8], "--mca plm_rsh_args -p 2200 -o BatchMode=yes -o ConnectTimeout=5 --stdin all --bind-to none --tag-output"},
	} {
		if got := strings.Join(test.got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// What mpirun, its ssh and its daemons were heard to say (Open MPI 4.1.4, MPICH 4.0.2), by line.
func TestExplain(t *testing.T) {
	const banner = "ORTE was unable to reliably start one or more daemons.; This usually is caused by:; * not finding the required libraries and/or binaries on"
	for _, test := range []struct {
		said  string
		came  broadcast.State
		cause remote.Cause
	}{
		{"ssh: connect to host w2 port 22: Connection refused; " + banner, broadcast.Failed, remote.Refused},
		{"ssh: connect to host w4 port 22: Connection timed out", broadcast.Going, remote.TimedOut},
		{"ssh: Could not resolve hostname nohost: Temporary failure in name resolution", broadcast.Going, remote.NameUnknown},
		{"root@w3: Permission denied (publickey).; " + banner, broadcast.Failed, remote.KeysRefused},
		{"Host key verification failed.", broadcast.Going, remote.HostKeyUnknown},
		{"bash: line 1: /nowhere/orted: No such file or directory; " + banner, broadcast.Failed, remote.DaemonMissing},
		{"bash: line 1: /root/bin/hydra_pmi_proxy: No such file or directory", broadcast.Going, remote.DaemonMissing},
		{"mpirun.openmpi has detected an attempt to run as root.", broadcast.Going, remote.RootRefused},
		{"A process or daemon was unable to complete a TCP connection; to another process:", broadcast.Going, remote.NoCallBack},
		{`[proxy:0:0@w2] HYDU_sock_connect (utils/sock/sock.c:141): unable to connect from "w2" to "mpC-head" (Connection refused)`, broadcast.Going, remote.NoCallBack},
		{banner, broadcast.Going, ""},
		{banner, broadcast.Failed, remote.MPIRunFailed},
		{"Warning: Permanently added 'w2' to the list of known hosts.", broadcast.Going, ""},
		{"somebody's banner: Permission denied (publickey) is what you get", broadcast.Going, ""},
		{"", broadcast.Failed, ""},
		{"a warning of the command's", broadcast.Broke, remote.ConnectionLost},
	} {
		failure := explain(test.said, test.came)
		if got := failure; (got == nil) != (test.cause == "") || got != nil && got.Cause != test.cause {
			t.Errorf("%q: %v, want %q", test.said, got, test.cause)
		}
	}
}

// tagged mixes what ranks write as Open MPI does: fragments, each behind a tag, that begin and
// end anywhere.
func tagged(of [][]byte, tag func(rank int) string, cut func(left int) int) []byte {
	var all []byte
	left := slices.Clone(of)
	for turn := 0; ; turn++ {
		done := true
		for rank := range left {
			if n := cut(len(left[rank])); n > 0 {
				all = append(append(all, tag(rank)...), left[rank][:n]...)
				left[rank] = left[rank][n:]
			}
			done = done && len(left[rank]) == 0
		}
		if done {
			return all
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"a":[1,2]} [1,3] and [x@1,2`+"\n"), []byte(" begins [1,0]\n[ and ends with a space \n"), uint64(1))
	f.Fuzz(func(t *testing.T, one, two []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		of := [][]byte{bytes.ReplaceAll(one, []byte("<"), nil), bytes.ReplaceAll(two, []byte("<"), nil)}
		for _, tag := range []func(int) string{
			func(rank int) string { return "[1," + string(rune('0'+rank)) + "]<stdout>:" },
			func(rank int) string { return "[prterun-head-77@1," + string(rune('0'+rank)) + "]<stdout>: " },
		} {
			all := tagged(of, tag, func(left int) int { return random.IntN(left + 1) })
			for _, from := range []io.Reader{bytes.NewReader(all), iotest.OneByteReader(bytes.NewReader(all))} {
				got := make([][]byte, 2)
				split(from, func(rank int, piece []byte) { got[rank] = append(got[rank], piece...) })
				if !bytes.Equal(got[0], of[0]) || !bytes.Equal(got[1], of[1]) {
					t.Fatalf("of %q\ncame %q\nwant %q", all, got, of)
				}
			}
		}
	})
}
