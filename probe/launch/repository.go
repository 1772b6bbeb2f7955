// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// gitLimit is what git gets to compare a work tree with its index.
const gitLimit = 2 * time.Second

// repository is the git work tree that a directory lies in, nil for none: neither
// is a home directory that keeps its settings in one, nor what anybody may have
// put into /tmp. Commit and branch are read from git's own files, so that a node
// without git and a tree of another owner tell them too.
func repository(ctx context.Context, o machine.Options, dir string) *facts.Repository {
	real, err := filepath.EvalSymlinks(o.At(dir))
	if err != nil {
		return nil
	}
	home := machine.Session(o).Home
	for dir = o.Without(real); !commonDirectory(dir, home); dir = filepath.Dir(dir) {
		if gitDir := gitDirectory(o, filepath.Join(dir, ".git")); gitDir != "" {
			seen := &facts.Repository{Root: dir}
			seen.Commit, seen.Branch = gitHead(o, gitDir)
			if ours(o.At(dir)) && ours(o.At(gitDir)) {
				seen.Dirty = changedFiles(ctx, o.At(dir))
			}
			return seen
		}
	}
	return nil
}

// ours is whether we own what is at a path. In a tree of somebody else's git would
// run the programs that they have named; safe.directory, by which it refuses to, is
// often switched off in containers, and unknown to git before 2.35.2.
func ours(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && int(stat.Uid) == os.Geteuid()
}

// How much is read of a file of git's. Most are of one line; of packed references
// there may be hundreds of thousands.
const (
	gitLine       = 4 << 10
	gitReferences = 64 << 20
)

// gitFileLine is the first line of one of git's files, "" where there is none.
func gitFileLine(path string) string {
	text, _ := readOrdinary(path, gitLine)
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// gitDirectory is what a .git stands for, "" when it stands for nothing: itself
// or, in a worktree and a submodule, the directory that the file names.
func gitDirectory(o machine.Options, path string) string {
	if pointer, found := strings.CutPrefix(gitFileLine(o.At(path)), "gitdir: "); found {
		if !filepath.IsAbs(pointer) {
			pointer = filepath.Join(filepath.Dir(path), pointer)
		}
		path = pointer
	}
	if !machine.Exists(o.At(filepath.Join(path, "HEAD"))) {
		return ""
	}
	return path
}

// commitID is a commit as git writes it, by SHA-1 or SHA-256.
var commitID = lazyregexp.New(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// gitHead reads what is checked out. Both are "" in a repository that keeps its
// references in another way than in files.
func gitHead(o machine.Options, gitDir string) (commit, branch string) {
	head := gitFileLine(o.At(filepath.Join(gitDir, "HEAD")))
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return onlyCommit(head), ""
	}
	if ref == "refs/heads/.invalid" { // of the reftable format
		return "", ""
	}
	// The branches of a worktree are those of the repository it belongs to.
	common := gitDir
	if dir := gitFileLine(o.At(filepath.Join(gitDir, "commondir"))); dir != "" {
		if common = dir; !filepath.IsAbs(dir) {
			common = filepath.Join(gitDir, dir)
		}
	}
	commit = onlyCommit(gitFileLine(o.At(filepath.Join(common, ref))))
	if commit == "" {
		commit = packedRef(o.At(filepath.Join(common, "packed-refs")), ref)
	}
	return commit, strings.TrimPrefix(ref, "refs/heads/")
}

func onlyCommit(text string) string {
	if commitID.MatchString(text) {
		return text
	}
	return ""
}

// packedRef finds a reference among those that git has put into one file.
func packedRef(path, ref string) string {
	text, err := readOrdinary(path, gitReferences)
	if err != nil {
		return ""
	}
	for row := range strings.Lines(string(text)) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(row), " "); name == ref {
			return onlyCommit(commit)
		}
	}
	return ""
}

// gitSettings keep git from running the programs that a repository's own
// configuration may name, from asking other machines for objects that it lacks,
// and from comparing contents to find renames. Filters are still run, without
// which nothing could be compared: git works in trees of our own only.
var gitSettings = []string{
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never",
	"-c", "status.renames=false", "-c", "diff.renames=false",
}

// changedFiles counts the tracked files that differ from the commit, nil when git
// cannot be asked: it is not there, it refuses the work tree ("dubious ownership",
// which is never overridden), or takes too long.
//
// Files of git-lfs are left out: they are data, and comparing one would store a copy.
func changedFiles(ctx context.Context, root string) *int {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil
	}
	args := append(append([]string{"--no-pager"}, gitSettings...), "-C", root, "status",
		"--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--", ".", ":(exclude,attr:filter=lfs)")
	status, _, err := hostsys.Child{Path: git, Args: args, Env: gitEnvironment(os.Environ()), Limit: gitLimit}.Run(ctx)
	if err != nil {
		return nil
	}
	return new(strings.Count(status, "\n"))
}

// gitEnvironment is ours without what would point git to another repository, and
// with what keeps it from refreshing the index and from asking anybody.
func gitEnvironment(environ []string) []string {
	ours := slices.DeleteFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	return append(ours, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
}
