package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

const (
	// readLimit is how long the files that are named may take to be read, all
	// together. Whatever was not read then has no digest, and says so.
	readLimit = 2 * time.Second
	// digestSize is up to which size a file is read: scripts and configurations
	// are far below it, and a checkpoint named by an argument is far above.
	digestSize = 64 << 20
)

// collectFiles looks at what the launch opens by path: the working directory,
// the files that its command names and, since a script imports its neighbours,
// the sources and the repository around it. Where no file is named, the working
// directory is all.
func collectFiles(ctx context.Context, o Options) (*facts.Files, error) {
	files := &facts.Files{WorkDir: workDir(o), Files: make([]facts.File, len(o.Files))}
	if len(o.Files) == 0 {
		return files, ctx.Err()
	}
	script := scriptDirectory(o)
	var all sync.WaitGroup
	all.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, readLimit, fmt.Errorf("not read within %s", readLimit))
		defer cancel()
		for i, named := range o.Files {
			files.Files[i] = lookAtFile(ctx, o, named)
		}
	})
	if script != "" {
		all.Go(func() { files.Sources = sources(ctx, o, script) })
	}
	all.Go(func() {
		if script == "" {
			script = o.WorkDir
		}
		files.Repository = repository(ctx, o, script)
	})
	all.Wait()
	return files, ctx.Err()
}

// scriptDirectory is where python looks for the script's neighbours: sys.path[0]
// is the directory of the file itself, not of a link to it. "" when no script is
// named or found.
func scriptDirectory(o Options) string {
	for _, named := range o.Files {
		if named.Role != facts.RoleScript {
			continue
		}
		real, err := filepath.EvalSymlinks(o.at(named.Path))
		if err != nil {
			return ""
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			return ""
		}
		return filepath.Dir(o.without(real))
	}
	return ""
}

// workDir tries what the launcher's cd needs: a directory that we may search.
func workDir(o Options) facts.WorkDir {
	dir := facts.WorkDir{Path: o.WorkDir}
	if o.WorkDir == "" {
		return dir
	}
	path := o.at(o.WorkDir)
	info, err := os.Stat(path)
	switch {
	case absent(err):
		dir.Problem = brokenLink(path)
		return dir
	case err != nil:
		dir.Exists, dir.Problem = true, reason(err)
		return dir
	}
	dir.Exists = true
	if !info.IsDir() {
		dir.Problem = "is a file"
	} else if err := unix.Access(path, unix.X_OK); err != nil {
		dir.Problem = err.Error()
	}
	return dir
}

// lookAtFile tells what is at a path, and reads it where it is an ordinary file.
func lookAtFile(ctx context.Context, o Options, named facts.LaunchFile) facts.File {
	file := facts.File{LaunchFile: named}
	path := o.at(named.Path)
	info, err := os.Stat(path)
	switch {
	case absent(err):
		file.Problem = brokenLink(path)
		return file
	case err != nil:
		file.Problem = reason(err)
		return file
	}
	file.Exists = true
	switch {
	case info.IsDir():
		file.Kind = "directory"
		return file
	case !info.Mode().IsRegular():
		file.Kind = "other"
		return file
	}
	file.Kind, file.Size = "file", info.Size()
	file.Exec = unix.Access(path, unix.X_OK) == nil
	if file.Size > digestSize {
		if err := unix.Access(path, unix.R_OK); err != nil {
			file.Problem = err.Error()
		}
		return file
	}
	if file.Digest, err = digest(ctx, path); err != nil {
		file.Problem = reason(err)
		return file
	}
	if o.Head && named.Role == facts.RoleConfig {
		file.Text = configText(path)
	}
	return file
}

// absent is whether an error proves that nothing is at a path.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// brokenLink says where a link leads at whose end nothing is, "" for no link.
func brokenLink(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return fmt.Sprintf("symbolic link to %s, which is not there", target)
	}
	return ""
}

// digest is a file's SHA-256 in hex. A file that another process is making longer
// is read no further than digestSize.
func digest(ctx context.Context, path string) (string, error) {
	// A pipe put in the file's place meanwhile would keep an open waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(mindful{ctx, f}, digestSize)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// mindful reads until a context ends.
type mindful struct {
	ctx  context.Context
	from io.Reader
}

func (m mindful) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	return m.from.Read(p)
}
