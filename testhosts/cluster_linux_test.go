// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// needRoot skips a test that needs root, and also reports this on standard error.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		fmt.Fprintf(os.Stderr, "NOT RUN: %s starts namespace hosts, which needs root; run the tests with sudo\n", t.Name())
		t.Skip("needs root")
	}
}

// raise starts a cluster that shares no directory, so that the path of the sources does not matter.
func raise(t *testing.T, nodes int) *testhosts.Cluster {
	t.Helper()
	t.Parallel()
	return testhosts.RaiseFor(t, sharing(nodes))
}

// sharing returns the options of a cluster that shares the given directories.
func sharing(nodes int, directories ...string) testhosts.Options {
	return testhosts.Options{Name: "test", Nodes: nodes, Slots: 2, Share: append([]string{}, directories...)}
}

// onHead runs a shell command on the launching machine and returns all its output.
func onHead(t *testing.T, c *testhosts.Cluster, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, _ := c.OnHead(ctx, "/bin/sh", "-c", command).CombinedOutput() // the output shows the status
	return string(out)
}

func TestCluster(t *testing.T) {
	c := raise(t, 3)
	head := c.Name + "-head"
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ command, want string }{
		{"hostname; hostname -I", head + "\n10.77.0.1 \n"},
		{"for h in w1 w2 w3 $(hostname) 10.77.1.2; do ssh -o BatchMode=yes $h hostname; done", "w1\nw2\nw3\n" + head + "\nw2\n"},
		{"ssh w1 ssh w3 ssh " + head + " hostname", head + "\n"},
		{"cat " + testhosts.HostfilePath, "w1 slots=2\nw2 slots=2\nw3 slots=2\n"},
		{"ssh w2 'echo $HOME $PATH; pwd; echo $0; [ $(ulimit -S -n) = $(ulimit -H -n) ]; echo $?'",
			"/root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n/root\nbash\n0\n"},
		{"env | sort | grep -v '^PWD='", "HOME=/root\nLANG=C.UTF-8\nLOGNAME=root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nSHELL=/bin/bash\nUSER=root\n"},
		{"getent hosts w3; ssh w3 getent ahostsv4 w3 | head -1", "10.77.1.3       w3\n10.77.1.3       STREAM w3\n"},
		{"ls /sys/class/net; ls /tmp /var/tmp /dev/shm", "eth0\nlo\n/dev/shm:\n\n/tmp:\n\n/var/tmp:\n"},
		{"ssh w1 touch /root/mine /tmp/mine /dev/shm/mine; ssh w2 'ls /root /tmp /dev/shm'", "/dev/shm:\n\n/root:\nhostfile\njob\n\n/tmp:\n"},
		{"for h in w1 w2; do ssh $h cat /etc/machine-id; done | sort -u | wc -l", "2\n"},
		{"pdsh -R ssh -w 'w[1-3]' hostname | sort", "w1: w1\nw2: w2\nw3: w3\n"},
		{"ssh w1 \"bash -c '</dev/tcp/192.0.2.1/22'\" 2>&1 | grep -o -m1 'Network is .*'", "Network is unreachable\n"},
		// This row checks that orphans are reaped and do not stay zombies.
		{"ssh w1 'setsid sh -c \"sleep 0.1\" & sleep 0.4; ps ax -o stat= | grep -c Z'", "0\n"},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, onHead(t, c, test.command)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.command, diff)
		}
	}
	if now, _ := os.Hostname(); now != machine {
		t.Errorf("the machine itself is called %s now", now)
	}
}

// TestOnHeadIsADirectChild checks that a command on the launching machine is a direct child. It
// must get the caller's signals, and the caller must get its exit status.
func TestOnHeadIsADirectChild(t *testing.T) {
	c := raise(t, 1)
	cmd := c.OnHead(t.Context(), "/bin/sh", "-c", `trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	n, _ := out.Read(buffer)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	m, _ := out.Read(buffer[n:])
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("wait: %v, want exit status 7", err)
	}
	if got := string(buffer[:n+m]); got != "ready\ncaught\n" {
		t.Errorf("printed %q", got)
	}
}

// TestShare checks that a directory can be shared even if nodes have their own version of its
// parent directory.
func TestShare(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp") // the nodes have their own /tmp
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := testhosts.RaiseFor(t, sharing(1, dir))
	got, err := c.Nodes[0].Run(t.Context(), "cat", filepath.Join(dir, "file"))
	if err != nil || got != "shared\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for here, want := range map[string]string{dir: dir, "/usr/bin": "/usr/bin", t.TempDir(): "/root"} {
		t.Chdir(here)
		if got := onHead(t, c, "pwd"); got != want+"\n" {
			t.Errorf("called in %s, a command on the head is in %q, want %s", here, got, want)
		}
	}
}

func TestAttachAndRestart(t *testing.T) {
	c := raise(t, 2)
	if _, err := testhosts.Raise(t.Context(), testhosts.Options{Name: c.Name, Nodes: 1}); !errors.Is(err, testhosts.ErrExists) {
		t.Errorf("raising it twice: got %v, want ErrExists", err)
	}
	again, err := testhosts.Attach(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	w2, err := again.Node("w2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w2.Run(t.Context(), "touch", "/root/before"); err != nil {
		t.Fatal(err)
	}
	if _, err := w2.AddDocker0(); err != nil {
		t.Fatal(err)
	}
	if err := w2.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "lo eth0 \nhostfile\njob\n"
	if got := onHead(t, c, `ssh w2 'ip -o link | cut -d" " -f2 | cut -d: -f1 | cut -d@ -f1 | tr "\n" " "; echo; ls /root'`); got != want {
		t.Errorf("after the restart w2 has %q, want %q", got, want)
	}
	if _, err := testhosts.Attach("nobody"); !errors.Is(err, testhosts.ErrNotUp) {
		t.Errorf("attaching to nothing: got %v, want ErrNotUp", err)
	}
}

// TestRestartIsKnownAgain checks that logins work after a restart, which restores the old host key,
// even if other machines have learned a changed key.
func TestRestartIsKnownAgain(t *testing.T) {
	c := raise(t, 3)
	w2, w3 := c.Nodes[1], c.Nodes[2]
	for _, n := range []*testhosts.Node{w2, w3} {
		if _, err := n.ChangeHostKey(); err != nil {
			t.Fatal(err)
		}
	}
	const (
		cure  = "for h in w2 w3; do ssh-keygen -R $h; ssh-keyscan -H $h 10.77.1.${h#w} >>~/.ssh/known_hosts; done; "
		login = "for h in w2 10.77.1.2 w3; do ssh -o BatchMode=yes $h hostname; done 2>/dev/null"
	)
	// Now w1 has lost its known_hosts, and the known_hosts of w2 is in its original state.
	if _, err := c.Nodes[0].Run(t.Context(), "rm", "/root/.ssh/known_hosts"); err != nil {
		t.Fatal(err)
	}
	if got := onHead(t, c, "{ "+cure+"} >/dev/null 2>&1; "+login); got != "w2\nw2\nw3\n" {
		t.Fatalf("with the new keys known: %q", got)
	}
	if err := w2.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// w3 keeps its new key, and so do its lines in known_hosts.
	if got := onHead(t, c, login+"; ls ~/.ssh"); got != "w2\nw2\nw3\nauthorized_keys\nid_ed25519\nid_ed25519.pub\nknown_hosts\n" {
		t.Errorf("after the restart: %q", got)
	}
	if got, err := c.Nodes[0].Run(t.Context(), "ssh", "-o", "BatchMode=yes", "w2", "hostname"); err != nil || got != "w2\n" {
		t.Errorf("from w1: %q, %v", got, err)
	}
}

// traces returns what a cluster of this name has left on the machine. Other tests may start and end
// clusters at the same time, so traces counts only names that certainly belong to this cluster.
func traces(t *testing.T, name string, namespaces ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, i := range []string{"br0", "head", "w1", "w2", "w3"} {
		if _, err := net.InterfaceByName(i); err == nil {
			found["interface"] = append(found["interface"], i)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), name) {
		found["mount"] = []string{name}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		space, _ := os.Readlink("/proc/" + entry.Name() + "/ns/net")
		if strings.Contains(string(line), "preflight-testhosts/"+name+"/") || slices.Contains(namespaces, space) {
			found["process"] = append(found["process"], entry.Name())
		}
	}
	for _, path := range []string{"/run/preflight-testhosts/" + name, "/var/tmp/" + name, "/var/log/sshd.log", "/run/sshd/testhosts.pid"} {
		if _, err := os.Stat(path); err == nil {
			found["file"] = append(found["file"], path)
		}
	}
	return found
}

func TestDownLeavesNothing(t *testing.T) {
	needRoot(t)
	name := fmt.Sprintf("gone%d", os.Getpid())
	before := traces(t, name)
	c, err := testhosts.Raise(t.Context(), testhosts.Options{Name: name, Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	// Daemons, held ports and sessions must also end.
	if _, err := c.Nodes[0].HoldPort(29500); err != nil {
		t.Error(err)
	}
	var namespaces []string
	for _, n := range c.Machines() {
		space, err := n.Run(t.Context(), "/bin/sh", "-c", "readlink /proc/self/ns/net; touch /var/tmp/"+name+"; setsid sleep 1000 >/dev/null 2>&1 &")
		if err != nil {
			t.Error(err)
		}
		namespaces = append(namespaces, strings.TrimSpace(space))
	}
	if up := traces(t, name, namespaces...); len(up["process"]) < 4*4 || len(up["file"]) != len(before["file"])+1 {
		t.Errorf("this test looks at the wrong things: of a running cluster it sees %v", up)
	}
	if err := c.Down(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, traces(t, name, namespaces...)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// TestMain lets the test binary act as the process that dies while it starts a cluster.
func TestMain(m *testing.M) {
	if name := os.Getenv("TESTHOSTS_RAISE"); name != "" {
		if _, err := testhosts.Raise(context.Background(), testhosts.Options{Name: name, Nodes: 100}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRemoveAfterACrash(t *testing.T) {
	needRoot(t)
	name := fmt.Sprintf("crash%d", os.Getpid())
	before := traces(t, name)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTHOSTS_RAISE="+name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "some nodes boot", func() bool { return len(traces(t, name)["process"]) > 10 })
	cmd.Process.Kill()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("it did not die half way: %v", err)
	}
	if _, err := testhosts.Attach(name); !errors.Is(err, testhosts.ErrNotUp) {
		t.Errorf("attaching to half a cluster: got %v, want ErrNotUp", err)
	}
	if _, err := testhosts.Raise(t.Context(), testhosts.Options{Name: name, Nodes: 1}); !errors.Is(err, testhosts.ErrExists) {
		t.Errorf("raising over half a cluster: got %v, want ErrExists", err)
	}
	if err := testhosts.Remove(name); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, traces(t, name)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

func TestRaiseRefuses(t *testing.T) {
	needRoot(t)
	for _, options := range []testhosts.Options{
		{Nodes: 0}, {Nodes: 2001}, {Nodes: 1, Name: "../x"}, {Nodes: 1, Name: "a/b"}, {Nodes: 1, Name: "."},
		{Nodes: 1, Name: "noshare", Share: []string{"/nonexistent"}},
	} {
		if c, err := testhosts.Raise(t.Context(), options); err == nil {
			c.Down()
			t.Errorf("%+v was raised", options)
		}
	}
	if names, err := testhosts.List(); err != nil || slices.Contains(names, "noshare") {
		t.Errorf("left %v, %v", names, err)
	}
}
