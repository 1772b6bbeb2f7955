// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// sharedAt is the directory that all nodes share in these tests.
const sharedAt = "/root/data"

// faultFS builds the file system with defects, once for all tests.
var faultFS = sync.OnceValues(func() (string, error) {
	program := filepath.Join(sharedPrograms, "faultfs")
	cmd := exec.Command("go", "build", "-o", program, "../testhosts/faultfs")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return program, err
})

// share gives all nodes one directory and returns its path on this machine.
func share(t *testing.T, cluster *testhosts.Cluster) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(sharedPrograms, "data")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes {
		if out, err := node.Run(t.Context(), "sh", "-c", fmt.Sprintf("mkdir -p %[2]s && mount --bind %[1]s %[2]s", dir, sharedAt)); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// defective returns a plant that mounts the shared directory a second time, with a defect.
func defective(program, dir string, flags ...string) plant {
	return func(n *testhosts.Node) (testhosts.Undo, error) {
		cmd := n.Command(context.Background(), append(append([]string{program}, flags...), dir, sharedAt)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, err
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
			return nil, fmt.Errorf("faultfs said %q: %w", line, err)
		}
		return func() error {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return cmd.Wait()
		}, nil
	}
}

// elsewhere gives a node another directory in place of the shared one.
func elsewhere(n *testhosts.Node) (testhosts.Undo, error) {
	_, err := n.Run(context.Background(), "mount", "-t", "tmpfs", "tmpfs", sharedAt)
	return func() error {
		_, err := n.Run(context.Background(), "umount", sharedAt)
		return err
	}, err
}

// mustBeEmpty fails if a file stays in the shared directory.
func mustBeEmpty(t *testing.T, dir string, within time.Duration) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		left, err := os.ReadDir(dir)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("preflight left %v (%v)", left, err)
		}
	}
}

func TestSharedDirectory(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("NOT RUN: %s needs FUSE: %v", t.Name(), err)
	}
	cluster := raise(t, "shared")
	program, err := faultFS()
	if err != nil {
		t.Fatal(err)
	}
	dir := share(t, cluster)
	run := func(t *testing.T) *testhosts.Cmd {
		return cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--only", "shared-directory", "--shared", sharedAt)
	}
	for _, tt := range []struct {
		name  string
		plant plant
		want  string // "" for no finding
		says  string
	}{
		{"a bind mount", nil, "", ""},
		{"a file system without a defect", defective(program, dir), "", ""},
		{"a second late", defective(program, dir, "-late", "1s"), "warn", " s late"},
		{"half a minute late", defective(program, dir, "-late", "30s"), "fail", "are not seen within 5 s"},
		{"locks of its own", defective(program, dir, "-locks", "own"), "warn", "hold on one node only"},
		{"no locks", defective(program, dir, "-locks", "none"), "warn", "cannot lock files"},
		{"another owner", defective(program, dir, "-owner", "65534"), "warn", "get another owner"},
		{"over the quota", defective(program, dir, "-write", "EDQUOT"), "fail", "disk quota exceeded"},
		{"a full server", defective(program, dir, "-write", "ENOSPC"), "fail", "no space left on device"},
		{"another directory", elsewhere, "fail", "is another directory than on w[1-2,4]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.plant != nil {
				plantOn(t, cluster, "w3", tt.plant)
			}
			findings, want := reported(t, run(t)).Findings, []string{}
			if tt.want != "" {
				want = []string{tt.want + " shared-directory [w3]"}
			}
			if diff := cmp.Diff(want, short(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if len(findings) > 0 && !strings.Contains(findings[0].Summary, tt.says) {
				t.Errorf("it says %q, not %q", findings[0].Summary, tt.says)
			}
			mustBeEmpty(t, dir, time.Second)
		})
	}
	t.Run("cut off", func(t *testing.T) {
		plantOn(t, cluster, "w3", defective(program, dir, "-late", "30s")) // the nodes look for 5 s
		cmd := run(t)
		cmd.Dir = sharedPrograms
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				break
			} else if time.Now().After(end) {
				t.Fatal("preflight wrote nothing")
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		mustBeEmpty(t, dir, 15*time.Second)
	})
}

// TestSharedOverSSHFS lets w2 and the nodes after it mount a directory of w1 with sshfs, which has
// no locks. sshfs caches names, but looks for a new file at once.
func TestSharedOverSSHFS(t *testing.T) {
	for _, file := range []string{"/dev/fuse", "/usr/bin/sshfs"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("NOT RUN: %s needs sshfs: %v", t.Name(), err)
		}
	}
	cluster := raise(t, "sshfs")
	if out, err := cluster.Nodes[0].Run(t.Context(), "mkdir", "-p", sharedAt); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, cache := range []string{"dir_cache=yes,attr_timeout=20,entry_timeout=20", "dir_cache=no,attr_timeout=0,entry_timeout=0"} {
		t.Run(cache, func(t *testing.T) {
			for _, node := range cluster.Nodes[1:] {
				script := fmt.Sprintf("mkdir -p %[2]s && sshfs -o %[1]s w1:%[2]s %[2]s", cache, sharedAt)
				if out, err := node.Run(t.Context(), "sh", "-c", script); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				t.Cleanup(func() {
					if out, err := node.Run(context.Background(), "umount", sharedAt); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			cmd := cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--only", "shared-directory", "--shared", sharedAt)
			findings := reported(t, cmd).Findings
			if diff := cmp.Diff([]string{"warn shared-directory [w1 w2 w3 w4]"}, short(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if len(findings) > 0 && !strings.Contains(findings[0].Summary, "hold on one node only") {
				t.Errorf("it says %q", findings[0].Summary)
			}
		})
	}
}
