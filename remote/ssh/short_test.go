// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"io/fs"
	"syscall"
	"testing"
	"time"

	"preflight/remote"
)

// fewFiles lets this process open only more additional files, until the returned function is
// called. No other test may run during that time.
func fewFiles(t *testing.T, more int) (enough func()) {
	t.Helper()
	free, err := syscall.Dup(0) // the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(free)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		lower := limit
		lower.Cur = soft
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
			t.Fatal(err)
		}
	}
	set(uint64(free + more))
	return func() { set(limit.Cur) }
}

// TestShortOfFiles checks that a shortage on this machine is not reported as a fault of a node.
func TestShortOfFiles(t *testing.T) {
	p := newPerson(t)
	_, port := listen(t, stay)
	p.write("config", host("w1", port))
	c := p.client(Options{})
	enough := fewFiles(t, 0)
	defer enough()
	p.failed(c, "w1", 5*time.Second, remote.StageConnect, remote.HeadLimit, "files to open in one process")
	enough()

	enough = fewFiles(t, 40)
	client := remote.New(c, remote.Options{})
	atOnce, short := client.Fit([]string{"w1", "w2"}, true, 512)
	_, most := client.Fit(make([]string, 40), true, 512)
	enough()
	if atOnce < 1 || atOnce > 5 || short != nil {
		t.Errorf("two nodes in 40 files: %d at once, %v", atOnce, short)
	}
	if most == nil || most.Cause != remote.HeadLimit || most.Detail["files"] == "" {
		t.Errorf("forty nodes in 40 files: %v", most)
	}
	if atOnce, short := client.Fit(make([]string, 40), true, 16); atOnce != 16 || short != nil {
		t.Errorf("forty nodes in %d: %d at once, %v", 1024, atOnce, short)
	}
}

// TestShortWhileReading checks that a key or known_hosts file that could not be opened for lack of
// file descriptors is not reported as unreadable.
func TestShortWhileReading(t *testing.T) {
	short := &fs.PathError{Op: "open", Path: "/home/me/.ssh/id_ed25519", Err: syscall.EMFILE}
	l := &login{target: &target{publicKey: true}, methods: []string{"publickey"}}
	l.unknowable = []*identity{{from: short.Path, unusable: remote.KeyPermissions, problem: short}}
	if e := l.explain(errGivenUp); e.Cause != remote.HeadLimit {
		t.Errorf("a key: %v", e)
	}
	public := newSigner(t).PublicKey()
	v := &verifier{target: &target{strict: "ask"}, problems: []error{short}}
	if e := v.check(nil, public); e == nil || e.Cause != remote.HeadLimit {
		t.Errorf("known_hosts: %v", e)
	}
}
