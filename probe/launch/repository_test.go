// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// repositoryAt creates a repository with a branch, a tracked file and one commit. It creates them
// as a user without a git configuration.
func repositoryAt(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for name, value := range map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "ml", "GIT_AUTHOR_EMAIL": "ml@lab", "GIT_COMMITTER_NAME": "ml", "GIT_COMMITTER_EMAIL": "ml@lab",
	} {
		t.Setenv(name, value)
	}
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	commitFile(t, dir, "train.py", "1")
	commitFile(t, dir, "model/a.py", "1")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message=first")
}

func commitFile(t *testing.T, dir, name, text string) {
	t.Helper()
	probetest.Write(t, machine.Options{Root: dir}, map[string]string{name: text})
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	output, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output))
}

// TestRepository compares the result with git's own answers for repositories of all kinds.
func TestRepository(t *testing.T) {
	tests := []struct {
		name   string
		shape  func(t *testing.T, dir string) (lookAt string)
		branch string
		dirty  int
	}{
		{"clean", func(t *testing.T, dir string) string { return dir }, "main", 0},
		{"from below", func(t *testing.T, dir string) string { return dir + "/model" }, "main", 0},
		{"by a link", func(t *testing.T, dir string) string {
			probetest.Link(t, machine.Options{Root: dir}, "model", "link")
			return dir + "/link"
		}, "main", 0},
		{"changed, staged, removed, and new", func(t *testing.T, dir string) string {
			commitFile(t, dir, "train.py", "2")
			commitFile(t, dir, "new.py", "")
			commitFile(t, dir, "staged.py", "")
			git(t, dir, "add", "staged.py")
			os.Remove(dir + "/model/a.py")
			return dir
		}, "main", 3},
		{"touched only", func(t *testing.T, dir string) string {
			if err := os.Chtimes(dir+"/train.py", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "main", 0},
		{"detached", func(t *testing.T, dir string) string { git(t, dir, "checkout", "--quiet", "--detach"); return dir }, "", 0},
		{"a branch with a slash", func(t *testing.T, dir string) string {
			git(t, dir, "checkout", "--quiet", "-b", "me/fix")
			return dir
		}, "me/fix", 0},
		{"packed", func(t *testing.T, dir string) string { git(t, dir, "pack-refs", "--all"); return dir }, "main", 0},
		{"a worktree", func(t *testing.T, dir string) string {
			tree := filepath.Join(t.TempDir(), "tree")
			git(t, dir, "worktree", "add", "--quiet", "-b", "side", tree)
			return tree
		}, "side", 0},
		{"a packed worktree", func(t *testing.T, dir string) string {
			tree := filepath.Join(t.TempDir(), "tree")
			git(t, dir, "worktree", "add", "--quiet", "-b", "side", tree)
			git(t, dir, "pack-refs", "--all")
			return tree
		}, "side", 0},
		{"a submodule", func(t *testing.T, dir string) string {
			outer := t.TempDir()
			git(t, outer, "init", "--quiet")
			git(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", dir, "inner")
			return outer + "/inner"
		}, "main", 0},
		{"variables that lead elsewhere", func(t *testing.T, dir string) string {
			t.Setenv("GIT_DIR", "/nowhere")
			t.Setenv("GIT_WORK_TREE", "/nowhere")
			return dir
		}, "main", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			repositoryAt(t, dir)
			commit := git(t, dir, "rev-parse", "HEAD")
			at := tt.shape(t, dir)
			got := repository(t.Context(), machine.Options{}, at)
			if got == nil {
				t.Fatal("no repository")
			}
			want := &facts.Repository{Root: got.Root, Commit: commit, Branch: tt.branch, Dirty: &tt.dirty}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if real, _ := filepath.EvalSymlinks(at); !strings.HasPrefix(real, got.Root) {
				t.Errorf("root %s is not above %s", got.Root, real)
			}
		})
	}
}

func TestRepositoryBeforeItsFirstCommit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", t.TempDir())
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	none := 0
	if diff := cmp.Diff(&facts.Repository{Root: dir, Branch: "main", Dirty: &none}, repository(t.Context(), machine.Options{}, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoRepository(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/srv/.git/config": "", "/srv/job/.git": "gitdir: gone\n", "/srv/job/train.py": ""})
	for _, dir := range []string{"/srv/job", "/srv", "/gone"} {
		if got := repository(t.Context(), o, dir); got != nil {
			t.Errorf("%s: %+v", dir, got)
		}
	}
}

// TestGitRunsAndWritesNothing checks that no program that a repository's configuration names is
// run. Reading the repository must not change it.
func TestGitRunsAndWritesNothing(t *testing.T) {
	dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	repositoryAt(t, dir)
	commitFile(t, dir, ".gitattributes", "*.bin filter=lfs\n*.py filter=other\n")
	commitFile(t, dir, "model.bin", "1")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message=large")
	for _, setting := range []string{"core.fsmonitor", "core.pager", "filter.lfs.process", "filter.lfs.clean"} {
		git(t, dir, "config", setting, probetest.Script(t, setting, "echo $0 >> "+ran))
	}
	git(t, dir, "config", "core.hooksPath", filepath.Dir(probetest.Script(t, "post-index-change", "echo $0 >> "+ran)))
	commitFile(t, dir, "model.bin", "2")
	os.Chtimes(dir+"/train.py", time.Unix(1, 0), time.Unix(1, 0)) // because of this time, git would usually refresh its index
	before := indexOf(t, dir)
	if got := repository(t.Context(), machine.Options{}, dir); got == nil || got.Dirty == nil || *got.Dirty != 0 {
		t.Errorf("%+v", got)
	}
	if output, err := os.ReadFile(ran); err == nil {
		t.Errorf("ran %s", output)
	}
	if indexOf(t, dir) != before {
		t.Error("the index was written")
	}
}

func indexOf(t *testing.T, dir string) string {
	t.Helper()
	index, err := os.ReadFile(dir + "/.git/index")
	if err != nil {
		t.Fatal(err)
	}
	return string(index)
}

// TestRepositoryWithoutGit checks that the commit is known even if git is missing, is slow or
// refuses the repository.
func TestRepositoryWithoutGit(t *testing.T) {
	dir := t.TempDir()
	repositoryAt(t, dir)
	commit := git(t, dir, "rev-parse", "HEAD")
	want := &facts.Repository{Root: dir, Commit: commit, Branch: "main"}
	for name, body := range map[string]string{"refuses": "echo 'fatal: detected dubious ownership' >&2; exit 128", "hangs": "exec sleep 300"} {
		t.Setenv("PATH", filepath.Dir(probetest.Script(t, "git", body))+":/bin:/usr/bin")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if diff := cmp.Diff(want, repository(ctx, machine.Options{}, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		cancel()
	}
	t.Setenv("PATH", "")
	if diff := cmp.Diff(want, repository(t.Context(), machine.Options{}, dir)); diff != "" {
		t.Errorf("none (-want +got):\n%s", diff)
	}
}

// TestNoRepositoryOfACommonDirectory checks that a repository in a home directory, or where every
// user may write, does not count as a project.
func TestNoRepositoryOfACommonDirectory(t *testing.T) {
	t.Setenv("HOME", "/nfs/me")
	t.Setenv("PATH", "")
	for root, found := range map[string]bool{
		"": false, "/tmp": false, "/var/tmp": false, "/home": false, "/home/ml": false, "/nfs/me": false,
		"/workspace": true, "/home/ml/proj": true, "/tmp/proj": true,
	} {
		o := probetest.Write(t, machine.Options{}, map[string]string{root + "/.git/HEAD": strings.Repeat("a", 40), root + "/job/train.py": ""})
		if got := repository(t.Context(), o, root+"/job"); (got != nil) != found {
			t.Errorf("%s: %+v", root, got)
		}
	}
}

// TestRepositoryOfSomebodyElse checks that git is not started in another user's tree, even if git
// is configured to trust all trees. Otherwise a filter that the tree's owner named would run.
func TestRepositoryOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving a file away takes root")
	}
	for _, theirs := range []string{"", "/.git"} {
		dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
		repositoryAt(t, dir)
		git(t, dir, "config", "--global", "safe.directory", "*")
		commitFile(t, dir, ".git/info/attributes", "*.py filter=other\n")
		git(t, dir, "config", "filter.other.clean", probetest.Script(t, "clean", "echo $0 >> "+ran+"; cat"))
		commitFile(t, dir, "train.py", "22")
		commit := git(t, dir, "rev-parse", "HEAD")
		if err := os.Chown(dir+theirs, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want := &facts.Repository{Root: dir, Commit: commit, Branch: "main"}
		if diff := cmp.Diff(want, repository(t.Context(), machine.Options{}, dir)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", theirs, diff)
		}
		if output, err := os.ReadFile(ran); err == nil {
			t.Errorf("ran %s", output)
		}
	}
}

// TestGitFileLine checks that special files in place of git's files do not block, and do not fill
// the memory.
func TestGitFileLine(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/srv/line": " gitdir: x \nmore", "/srv/long": strings.Repeat("x", 2*gitLine)})
	if err := syscall.Mkfifo(o.At("/srv/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A writer that stays open would block anything that reads the pipe.
	pipe, err := os.OpenFile(o.At("/srv/pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for path, want := range map[string]string{"/srv/line": "gitdir: x", "/srv/long": strings.Repeat("x", gitLine), "/srv/pipe": "", "/srv": "", "/none": ""} {
		if got := gitFileLine(o.At(path)); got != want {
			t.Errorf("%s: %d bytes, want %d", path, len(got), len(want))
		}
	}
}
