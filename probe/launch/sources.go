// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

// How much python beside a script is read, and how long that may take. A project
// is far below each.
const (
	sourcesLimit = 1 * time.Second
	sourcesFiles = 2000
	sourcesSize  = 64 << 20
	// sourcesListed is up to how many files each is listed by itself.
	sourcesListed = 300
	// sourcesEntries is from how many entries on a directory holds data, not code.
	sourcesEntries = 5000
)

// sourceTree is a walk through the python below a directory, in an order that is
// the same wherever the tree is.
type sourceTree struct {
	o       machine.Options
	root    string // as the machine names it
	deep    bool   // whether directories below are looked into
	bytes   int64
	files   []source
	problem string // the first thing that was left out
}

type source struct{ name, digest string }

// sources reads the python below a script's directory, as far as an import could
// mean it. Links to directories are not followed.
func sources(ctx context.Context, o machine.Options, root string) *facts.Sources {
	ctx, cancel := context.WithTimeoutCause(ctx, sourcesLimit, fmt.Errorf("not read within %s", sourcesLimit))
	defer cancel()
	shared := sharedDirectory(root, machine.Session(o).Home)
	tree := sourceTree{o: o, root: root, deep: !shared}
	entries, err := machine.ReadDir(o.At(root), sourcesEntries+1)
	if err != nil {
		return &facts.Sources{Root: root, Shared: shared, Problem: machine.Reason(err)}
	}
	done := tree.walk(ctx, "", entries)
	seen := &facts.Sources{Root: root, Shared: shared, Count: len(tree.files), Problem: tree.problem}
	if !done && ctx.Err() != nil {
		seen.Problem = context.Cause(ctx).Error()
		return seen // where it stopped is chance, and so is its digest
	}
	sum := sha256.New()
	for _, file := range tree.files {
		fmt.Fprintf(sum, "%s %q\n", file.digest, file.name)
	}
	seen.Digest = hex.EncodeToString(sum.Sum(nil))
	if len(tree.files) <= sourcesListed {
		seen.Files = map[string]string{}
		for _, file := range tree.files {
			seen.Files[file.name] = file.digest[:min(len(file.digest), 12)]
		}
	}
	return seen
}

// walk takes in one directory and what is below it. False means that it stopped.
func (t *sourceTree) walk(ctx context.Context, dir string, entries []os.DirEntry) bool {
	for _, entry := range entries {
		if ctx.Err() != nil {
			return false
		}
		name := filepath.Join(dir, entry.Name())
		path := t.o.At(filepath.Join(t.root, name))
		switch {
		case entry.IsDir():
			if !t.deep || foreignDirectory(entry.Name()) {
				continue
			}
			below, err := machine.ReadDir(path, sourcesEntries+1)
			if err != nil {
				t.problem = cmp.Or(t.problem, name+": "+machine.Reason(err))
				continue
			}
			if dataDirectory(entry.Name(), below) {
				continue
			}
			if !t.walk(ctx, name, below) {
				return false
			}
		case strings.HasSuffix(name, ".py") && !t.take(ctx, name, path):
			return false
		}
	}
	return true
}

// take reads one file. False means that there is no room for it, or no time.
func (t *sourceTree) take(ctx context.Context, name, path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return true // a link to nothing: an import fails on it as on no file
	}
	switch t.bytes += info.Size(); {
	case len(t.files) == sourcesFiles:
		t.problem = cmp.Or(t.problem, fmt.Sprintf("more than %d files", sourcesFiles))
		return false
	case t.bytes > sourcesSize:
		t.problem = cmp.Or(t.problem, fmt.Sprintf("more than %d MiB", sourcesSize>>20))
		return false
	}
	sum, err := digest(ctx, path)
	if err != nil {
		t.problem = cmp.Or(t.problem, name+": "+machine.Reason(err))
	}
	t.files = append(t.files, source{name, sum})
	return ctx.Err() == nil
}

// foreignDirectory is whether a directory is by its name none of the project's
// own sources.
func foreignDirectory(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"__pycache__", "site-packages", "dist-packages", "node_modules"}, name)
}

// outputNames are directories that hold what a run or a build has written, unless
// there is python right in them.
var outputNames = []string{"build", "checkpoint", "checkpoints", "ckpt", "ckpts", "dist", "logs", "mlruns", "output", "outputs", "runs", "tensorboard", "wandb"}

// dataDirectory is whether a directory holds an environment or data, by what is in it.
func dataDirectory(name string, entries []os.DirEntry) bool {
	holds := func(wanted func(string) bool) bool {
		return slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return wanted(entry.Name()) })
	}
	if len(entries) > sourcesEntries || holds(func(name string) bool { return name == "pyvenv.cfg" || name == "conda-meta" }) {
		return true
	}
	output := slices.Contains(outputNames, strings.ToLower(name)) || strings.HasPrefix(name, "checkpoint-") || strings.HasPrefix(name, "global_step")
	return output && !holds(func(name string) bool { return strings.HasSuffix(name, ".py") })
}

// sharedDirectory is whether a directory is no project's own, so that what lies
// below it has nothing to do with the script: a home directory, a place for
// programs, or one right below the root such as /tmp and /opt.
func sharedDirectory(dir, home string) bool {
	return commonDirectory(dir, home) || strings.Count(dir, "/") == 1 || filepath.Dir(dir) == "/usr" || filepath.Base(dir) == "bin"
}

// commonDirectory is whether a directory is surely no project, whatever is in it: a
// home directory, the root, or one where anybody puts things. In containers a
// project may lie right below the root, as in /workspace.
func commonDirectory(dir, home string) bool {
	return slices.Contains([]string{"/", "/tmp", "/var/tmp", "/home", filepath.Clean(home), filepath.Clean(os.Getenv("HOME")), filepath.Clean(os.TempDir())}, dir) ||
		filepath.Dir(dir) == "/home"
}
