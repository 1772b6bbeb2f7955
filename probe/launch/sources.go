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

// These constants limit reading the Python code next to a script. A project is far below each
// limit.
const (
	sourcesLimit = 1 * time.Second
	sourcesFiles = 2000
	sourcesSize  = 64 << 20
	// sourcesListed is the maximum number of files that the result lists individually.
	sourcesListed = 300
	// sourcesEntries is the largest number of entries in a directory of code. A directory with more
	// entries counts as data.
	sourcesEntries = 5000
)

// sourceTree is a walk through the Python code below a directory. Its order does not depend on
// where the tree is.
type sourceTree struct {
	o       machine.Options
	root    string // path on the machine
	deep    bool   // subdirectories are read too
	bytes   int64
	files   []source
	problem string // what was left out first
}

type source struct{ name, digest string }

// sources reads the Python code below a script's directory, as far as an import could use it. It
// does not follow links to directories.
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
		return seen // the walk stopped at a random file, so its digest would be random too
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

// walk reads one directory and everything below it. It returns false if it stopped early.
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
		case strings.HasSuffix(name, ".py") && !t.addFile(ctx, name, path):
			return false
		}
	}
	return true
}

// addFile reads one file. It returns false if a limit is reached.
func (t *sourceTree) addFile(ctx context.Context, name, path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return true // the file is a dangling link, on which an import fails as on a missing file
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

// foreignDirectory reports whether a directory's name shows that the directory is not part of the
// project's sources.
func foreignDirectory(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"__pycache__", "site-packages", "dist-packages", "node_modules"}, name)
}

// outputNames lists names of directories with the output of a run or a build. If there are Python
// files directly in such a directory, it does not count as output.
var outputNames = []string{"build", "checkpoint", "checkpoints", "ckpt", "ckpts", "dist", "logs", "mlruns", "output", "outputs", "runs", "tensorboard", "wandb"}

// dataDirectory reports whether a directory's content shows that it is an environment or data.
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

// sharedDirectory reports whether a directory is not a project, so that its subdirectories do not
// belong to the script. It is a home directory, a place for programs, or a directory directly below
// the root, such as /tmp and /opt.
func sharedDirectory(dir, home string) bool {
	return commonDirectory(dir, home) || strings.Count(dir, "/") == 1 || filepath.Dir(dir) == "/usr" || filepath.Base(dir) == "bin"
}

// commonDirectory reports whether a directory is certainly not a project, whatever it contains. It
// is a home directory, the root, or a directory that everyone uses. In containers a project may be
// directly below the root, such as /workspace.
func commonDirectory(dir, home string) bool {
	return slices.Contains([]string{"/", "/tmp", "/var/tmp", "/home", filepath.Clean(home), filepath.Clean(os.Getenv("HOME")), filepath.Clean(os.TempDir())}, dir) ||
		filepath.Dir(dir) == "/home"
}
