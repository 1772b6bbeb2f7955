// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"preflight/cmd/preflight/internal/usage"
	"preflight/report/formats"
)

// Product describes what a command writes.
type Product struct {
	Formats    []string
	IsSnapshot bool // a normalized snapshot, which may replace an earlier one
}

// Run returns the product of the commands that check nodes.
func Run() Product { return Product{Formats: formats.Names()} }

// Writable checks the outputs before the run. It refuses outputs that could not be written after
// the run, that would replace a file worth keeping, or whose format the command does not write.
// those maps names of the command's inputs, such as "the hostfile", to their paths, which may be
// "".
func Writable(outputs []Output, written Product, those map[string]string, onTerminal bool) error {
	for _, o := range outputs {
		switch {
		case !o.row().Hosts && !slices.Contains(written.Formats, o.Format):
			return o.unknownFormat(written.Formats)
		case o.isBareFormat():
			return usage.WithHint(fmt.Errorf("%s names a format, but no file", o.Asked), "to write it: -o %s=FILE; to print it: --format %s; for a file of this name: ./%s", o.Path, o.Path, o.Path)
		case o.hasStrangeEnding():
			return usage.WithHint(fmt.Errorf("%s: no format has the ending %s", o.Asked, filepath.Ext(o.Path)), "name a format (%s): -o %s=%s; the endings of text are %s, or none", usage.Words(strings.Join(written.Formats, ", ")), formats.Text, o.Path, usage.Words(strings.Join(textEndings, ", ")))
		case o.Printed() && o.row().Unread && onTerminal:
			return usage.WithHint(fmt.Errorf("%s is not readable on a terminal", o.row().Is), "write it to a file: -o %s=report.%[1]s", o.Format)
		}
	}
	if err := distinct(outputs); err != nil {
		return err
	}
	for _, o := range outputs {
		if err := o.writable(those, written.IsSnapshot); err != nil {
			return err
		}
	}
	return nil
}

// unknownFormat returns the error for a format that the command does not write. It lists the
// formats that the command writes. For an unknown format it also suggests a similar one.
func (o Output) unknownFormat(known []string) error {
	if slices.Contains(formats.Names(), o.Format) {
		return usage.WithHint(fmt.Errorf("%s: this command does not write %s", o.Asked, o.Format), "it writes only %s: -o %s=%s", usage.Words(strings.Join(known, ", ")), known[0], o.Path)
	}
	return usage.WithHint(fmt.Errorf("%s: unknown format %q%s", o.Asked, o.Format, usage.Nearest(o.Format, known)),
		"formats are %s; for a file of this name: ./%s=%s", usage.Words(strings.Join(known, ", ")), o.Format, o.Path)
}

// writable works like [Writable] for one output.
func (o Output) writable(those map[string]string, isSnapshot bool) error {
	if o.Printed() {
		return nil
	}
	info, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(o.Path); err == nil {
			return usage.WithHint(fmt.Errorf("%s is a link to a file that does not exist", o.Asked), "create the file, or remove the link")
		}
		return o.Creatable()
	case err != nil:
		return o.cannot(err)
	case info.IsDir():
		return usage.WithHint(fmt.Errorf("%s is a directory", o.Asked), "name a file in it: %s/report", o.Asked)
	}
	for what, path := range those {
		if read, err := os.Stat(path); err == nil && os.SameFile(read, info) {
			return usage.WithHint(fmt.Errorf("%s would overwrite %s", o.Asked, what), "name another file, such as -o report.json")
		}
	}
	if stream(info) != nil || !info.Mode().IsRegular() {
		return nil // /dev/null or a pipe has no content to lose, and reading it may block
	}
	if o.isAdded() {
		return nil
	}
	return o.replaceable(isSnapshot)
}

// stream returns standard output or standard error if the file is one of them, nil otherwise. The
// shell has such a file open, and later output must follow the report.
func stream(info fs.FileInfo) *os.File {
	for _, open := range []*os.File{os.Stdout, os.Stderr} {
		if ours, err := open.Stat(); err == nil && os.SameFile(ours, info) {
			return open
		}
	}
	return nil
}

// target returns the path behind any symbolic links, so that the links are kept. The file need not
// exist yet.
func (o Output) target() string {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return filepath.Clean(o.Path)
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Creatable returns an error if the file cannot be created. To test this, it creates and removes
// another file in the same directory.
func (o Output) Creatable() error {
	file, err := beside(o.Path)
	if err != nil {
		return o.cannot(err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// beside creates a temporary file in the directory of another file. The temporary name contains the
// other file's name but has another extension, so that programs which collect files by extension
// ignore it.
func beside(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// reportStart matches the start of every JSON report that preflight writes. snapshotStart matches
// the start of a normalized snapshot.
var (
	reportStart   = regexp.MustCompile(`^\{\s*"schema"\s*:\s*\d`)
	snapshotStart = regexp.MustCompile(`^\{\s*"schema"\s*:\s*\d+\s*,\s*"normalized"\s*:\s*true\b`)
)

// replaceable refuses to replace a .json file that is not a report, such as a DeepSpeed
// configuration. It also refuses to replace a normalized snapshot with anything but another
// normalized snapshot.
func (o Output) replaceable(isSnapshot bool) error {
	file, err := os.OpenFile(o.Path, os.O_RDWR, 0)
	if err != nil {
		return o.cannot(err)
	}
	defer file.Close()
	start, err := io.ReadAll(io.LimitReader(file, 256))
	isJSON := strings.EqualFold(filepath.Ext(o.Path), ".json")
	switch {
	case err != nil:
		return o.cannot(err)
	case isJSON && len(start) > 0 && !reportStart.Match(start):
		return usage.WithHint(fmt.Errorf("%s already exists and is not a preflight report", o.Asked), "name another file, or remove that one")
	case !isSnapshot && snapshotStart.Match(start):
		return usage.WithHint(fmt.Errorf("%s already exists and is a normalized snapshot", o.Asked), "name another file; only preflight snapshot --normalize may overwrite this one")
	}
	return nil
}

// isAdded reports whether the report is appended to a file with other reports. On GitHub Actions,
// every command of a step appends to the summary of the step (docs.github.com, "Workflow commands",
// Adding a job summary).
func (o Output) isAdded() bool {
	path := os.Getenv(o.row().AddedTo)
	return path != "" && !o.Printed() && o.isAlso(Output{Path: path})
}

// save writes the text to the output.
func (o Output) save(text []byte) error {
	if o.isAdded() {
		return o.add(text)
	}
	return o.Put(text)
}

// Put writes the text to the output atomically. It writes a temporary file and renames it, so that
// no collector, launch or CI job reads half of it, even after a crash of the machine.
func (o Output) Put(text []byte) error {
	info, err := os.Stat(o.Path)
	switch {
	case err != nil:
	case stream(info) != nil:
		_, err := stream(info).Write(text)
		return o.cannot(err)
	case !info.Mode().IsRegular():
		return o.feed(text)
	}
	file, err := beside(o.target())
	if err != nil {
		return o.putInPlace(text, info, err)
	}
	_, err = file.Write(text)
	if info != nil {
		err = errors.Join(err, file.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		os.Remove(file.Name())
		return o.cannot(err)
	}
	if err := os.Rename(file.Name(), o.target()); err != nil {
		os.Remove(file.Name())
		return o.putInPlace(text, info, err)
	}
	return nil
}

// putInPlace overwrites a file that cannot be replaced by a rename. The file is a mount point (the
// termination log of Kubernetes, a single file of docker -v), or its directory is not writable. why
// is the error of the rename. putInPlace truncates the old content last. A reader may see parts of
// both reports, but never an empty file.
func (o Output) putInPlace(text []byte, there fs.FileInfo, why error) error {
	if there == nil {
		return o.cannot(why)
	}
	file, err := os.OpenFile(o.Path, os.O_WRONLY, 0)
	if err != nil {
		return o.cannot(err)
	}
	if _, err = file.Write(text); err == nil {
		err = file.Truncate(int64(len(text)))
	}
	return o.cannot(errors.Join(err, file.Close()))
}

// add appends the text to the file as a separate paragraph.
func (o Output) add(text []byte) error {
	file, err := os.OpenFile(o.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return o.cannot(err)
	}
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		text = append([]byte("\n\n"), text...)
	}
	_, err = file.Write(text)
	return o.cannot(errors.Join(err, file.Close()))
}

// feed writes to a file that is not a regular file. A named pipe must already have a reader,
// because waiting for one would look like a run that does not end.
func (o Output) feed(text []byte) error {
	file, err := os.OpenFile(o.Path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return usage.WithHint(fmt.Errorf("%s is a pipe without a reader", o.Asked), "start its reader first")
	}
	if err != nil {
		return o.cannot(err)
	}
	_, err = file.Write(text)
	return o.cannot(errors.Join(err, file.Close()))
}

func (o Output) cannot(err error) error {
	if err == nil {
		return nil
	}
	return CannotWrite(o.Asked, err)
}

// CannotWrite returns an error that names the output and the system's reason, without the path that
// the system adds.
func CannotWrite(asked string, err error) error {
	cannot := fmt.Errorf("%s cannot be written: %w", asked, usage.Reason(err))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return usage.WithHint(cannot, "the disk of this machine is full: free some space (df -h), or name a file on another disk")
	}
	return usage.WithHint(cannot, "name a file in a directory that you may write to")
}
