// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// FilesLimit is the time limit of the files section.
	FilesLimit = 4 * time.Second
	// readLimit is the time limit for reading each named file. A file that was not read in time has
	// a problem and no digest.
	readLimit = 2 * time.Second
	// readTogether is how many named files are read at the same time. A file on a dead mount blocks
	// its slot until the end. So there are more slots than a command is likely to have such paths.
	readTogether = 16
	// digestSize is the largest file that is read, in bytes. Scripts and configurations are far
	// smaller. A checkpoint that an argument names is far larger.
	digestSize = 64 << 20
)

// CollectFiles reads what the launch opens by path: the working directory and the files that its
// command names. A script imports the files next to it, so CollectFiles also reads the sources and
// the repository around the script. In addition it examines the program that the launcher starts on
// this node.
func CollectFiles(ctx context.Context, o machine.Options) (*facts.Files, error) {
	files := &facts.Files{WorkDir: workDir(o), Files: []facts.File{}}
	var all sync.WaitGroup
	defer all.Wait()
	if o.Daemon != "" {
		all.Go(func() { files.Daemon = findDaemon(ctx, o.Daemon) })
	}
	if len(o.Models) > 0 {
		all.Go(func() { files.Models = models(ctx, o) })
	}
	if len(o.Files) == 0 {
		return files, ctx.Err()
	}
	script := machine.ScriptDirectory(o)
	all.Go(func() {
		files.Files = readFiles(ctx, o, readFile)
		readConfigs(ctx, o, files.Files)
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

// findDaemon searches the PATH of this session, which is non-interactive like the launcher's
// session. It returns nil if a directory in PATH does not answer.
func findDaemon(ctx context.Context, asked string) *facts.Daemon {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	daemon, err := machine.Within(ctx, func() (*facts.Daemon, error) {
		path, _ := exec.LookPath(asked) // on any error, a shell would not find it either
		return &facts.Daemon{Asked: asked, Path: path, Unloadable: daemonRefused(ctx, asked, path)}, nil
	})
	if err != nil {
		return nil
	}
	return daemon
}

// daemonRefused returns the loader's error about a daemon's libraries. If the daemon is installed
// under another prefix, the launcher starts it with the libraries of that prefix.
//
// Source: Open MPI 4.1, orte/mca/plm/rsh/plm_rsh_module.c, setup_launch, opal_prefix.
func daemonRefused(ctx context.Context, asked, path string) string {
	if path == "" {
		return ""
	}
	env := os.Environ()
	if prefix := filepath.Dir(filepath.Dir(path)); filepath.IsAbs(asked) {
		env = append(env, strings.Join([]string{"LD_LIBRARY_PATH=" + filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"), os.Getenv("LD_LIBRARY_PATH")}, ":"))
	}
	return machine.Refused(ctx, machine.Linked{Program: path, Object: path, Env: env})
}

// workDir checks what the launcher's cd needs: a directory that this user may search.
func workDir(o machine.Options) facts.WorkDir {
	dir := facts.WorkDir{Path: o.WorkDir}
	if o.WorkDir == "" {
		return dir
	}
	path := o.At(o.WorkDir)
	var info os.FileInfo
	if info, dir.Exists, dir.Problem = stat(path); info == nil {
		return dir
	}
	if !info.IsDir() {
		dir.Problem = "is a file"
	} else if err := unix.Access(path, unix.X_OK); err != nil {
		dir.Problem = err.Error()
	}
	return dir
}

// readFiles reads the named files independently. A file on a dead mount blocks its own reader and
// reports its own problem, but does not affect the other files.
func readFiles(ctx context.Context, o machine.Options, lookAt func(context.Context, machine.Options, facts.LaunchFile) facts.File) []facts.File {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, fmt.Errorf("not read within %s", readLimit))
	defer cancel()
	files := make([]facts.File, len(o.Files))
	places := make(chan bool, readTogether)
	var all sync.WaitGroup
	for i, named := range o.Files {
		all.Go(func() {
			file, err := machine.Within(ctx, func() (facts.File, error) {
				select {
				case places <- true:
				case <-ctx.Done():
					return facts.File{}, ctx.Err()
				}
				defer func() { <-places }()
				return lookAt(ctx, o, named), nil
			})
			if err != nil {
				file = facts.File{LaunchFile: named, Exists: true, Problem: err.Error()}
			}
			files[i] = file
		})
	}
	all.Wait()
	return files
}

// readFile reports what exists at a path. If it is an ordinary file, readFile reads it.
func readFile(ctx context.Context, o machine.Options, named facts.LaunchFile) facts.File {
	file := facts.File{LaunchFile: named}
	path := o.At(named.Path)
	var info os.FileInfo
	info, file.Exists, file.Problem = stat(path)
	switch {
	case info == nil:
		return file
	case info.IsDir():
		file.Kind = "directory"
		entries, err := machine.ReadDir(path, 1)
		file.Empty = err == nil && len(entries) == 0
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
	var err error
	if file.Digest, err = digest(ctx, path); err != nil {
		file.Problem = machine.Reason(err)
		return file
	}
	switch {
	case named.Role == facts.RoleScript && file.Size <= scriptSize:
		if text, err := readOrdinary(path, scriptSize); err == nil {
			local := isIn(o.At(machine.ScriptDirectory(o)))
			if o.Getenv("PYTHONSAFEPATH") != "" { // then Python may not search that directory
				local = func(string) bool { return false }
			}
			file.Imports, file.Needs = imports(string(text), local)
			file.Unset = unset(string(text), o.LookupEnv)
			file.Workers = workers(string(text))
			file.Saves = saves.Match(text)
			file.WritesNothing = !writes.Match(text) && len(file.Imports) == len(file.Needs)
			file.Code = codeDigest(text)
			file.MakesGloo = o.Head && makesGloo(text)
			if o.Head {
				file.Compiles = compiles(string(text), o.At(machine.ScriptDirectory(o)), file.Imports)
			}
		}
	case named.Role == facts.RoleConfig && o.Head:
		file.Text = configText(path)
	}
	return file
}

// stat describes what exists at a path. If that cannot be read, info is nil and problem has the
// reason. exists is false only if the file is certainly absent.
func stat(path string) (info os.FileInfo, exists bool, problem string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, false, machine.BrokenLink(path)
	case err != nil:
		return nil, true, machine.Reason(err)
	}
	return info, true, ""
}

// digest returns a file's SHA-256 in hex. It reads no more than digestSize, because another process
// may be appending to the file.
func digest(ctx context.Context, path string) (string, error) {
	f, err := openOrdinary(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(contextReader{ctx, f}, digestSize)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// codeDigest returns the digest of a script without comment lines, blank lines and trailing space.
// Python ignores these. A line inside a string that looks like a comment counts as a comment.
func codeDigest(text []byte) string {
	sum := sha256.New()
	for line := range bytes.Lines(text) {
		code := bytes.TrimSpace(line)
		if len(code) > 0 && code[0] != '#' {
			sum.Write(append(bytes.TrimRight(line, " \t\r\n"), '\n'))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// openOrdinary opens a regular file for reading. It does not open a pipe, because that would wait
// for a writer.
func openOrdinary(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, errors.New("not an ordinary file"))
	}
	return f, nil
}

// readOrdinary reads up to limit bytes of a file.
func readOrdinary(path string, limit int64) ([]byte, error) {
	f, err := openOrdinary(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// contextReader reads until a context ends.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

func (m contextReader) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	return m.from.Read(p)
}
