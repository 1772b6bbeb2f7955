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

// gitLimit is git's time limit for comparing a work tree with its index.
const gitLimit = 2 * time.Second

// repository returns the git work tree that contains a directory, or nil if there is none. A home
// directory that keeps its settings in git does not count, and neither does a directory in /tmp.
// The commit and the branch are read from git's own files. So they are known without git, and for a
// tree of another owner.
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
			if isOwn(o.At(dir)) && isOwn(o.At(gitDir)) {
				seen.Dirty = changedFiles(ctx, o.At(dir))
			}
			return seen
		}
	}
	return nil
}

// isOwn reports whether preflight's user owns the file at a path. In another user's tree, git would
// run the programs that the tree's owner configured. git refuses that by means of safe.directory.
// But that setting is often disabled in containers, and does not exist before 2.35.2.
func isOwn(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && int(stat.Uid) == os.Geteuid()
}

// These constants limit reading git's files, in bytes. Most files have one line, while packed-refs
// may have hundreds of thousands of lines.
const (
	gitLine       = 4 << 10
	gitReferences = 64 << 20
)

// gitFileLine returns the first line of one of git's files, or "" if the file does not exist.
func gitFileLine(path string) string {
	text, _ := readOrdinary(path, gitLine)
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// gitDirectory returns the git directory for a .git path, or "" if there is none. Usually it is the
// .git itself. In a worktree and a submodule, .git is a file that names the git directory.
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

// commitID matches a commit as git writes it, as SHA-1 or SHA-256.
var commitID = lazyregexp.New(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// gitHead returns the commit and the branch that are checked out. Both are "" in a repository that
// does not keep its references in files.
func gitHead(o machine.Options, gitDir string) (commit, branch string) {
	head := gitFileLine(o.At(filepath.Join(gitDir, "HEAD")))
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return onlyCommit(head), ""
	}
	if ref == "refs/heads/.invalid" { // this is the reftable format
		return "", ""
	}
	// The branches of a worktree are in the repository to which the worktree belongs.
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

// packedRef returns the commit of a reference in packed-refs.
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

// gitSettings lists settings that keep git from running programs that the repository's
// configuration names. They also keep git from fetching missing objects from other machines, and
// from comparing contents to find renames. Filters still run, because without them git could
// compare nothing. preflight runs git only in trees that its own user owns.
var gitSettings = []string{
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never",
	"-c", "status.renames=false", "-c", "diff.renames=false",
}

// changedFiles counts the tracked files that differ from the commit. It returns nil if git is
// missing, takes too long, or refuses the work tree. git's refusal ("dubious ownership") is never
// overridden.
//
// Files of git-lfs are left out. They are data, and comparing one would store a copy of it.
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

// gitEnvironment returns preflight's environment without variables that point git to another
// repository. It adds variables that keep git from refreshing the index and from prompting.
func gitEnvironment(environ []string) []string {
	ours := slices.DeleteFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	return append(ours, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
}
