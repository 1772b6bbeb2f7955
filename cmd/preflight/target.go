package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/report"
)

// writable refuses before the run outputs that could not be written after it, that
// would cost their user a file, or whose format the command does not write. hostfile is
// the one that was read, "" for none.
func (c Config) writable(hostfile string, formats []string) error {
	if err := oneOf("format", c.Format, formats); err != nil {
		return err
	}
	outputs := c.outputs()
	for _, o := range outputs {
		if o.isReport() && !slices.Contains(formats, o.format) {
			return withHint(fmt.Errorf("%s: this command does not write %s", o.said, o.format), "it writes %s", strings.Join(formats, ", "))
		}
	}
	if err := distinct(outputs); err != nil {
		return err
	}
	for _, o := range outputs {
		if err := o.writable(hostfile); err != nil {
			return err
		}
	}
	return nil
}

func (o output) writable(hostfile string) error {
	if o.isPrinted() {
		return nil
	}
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(o.path); err == nil {
			return withHint(fmt.Errorf("%s is a link to a file that is not there", o.said), "make that file, or remove the link")
		}
		return creatable(o.said, o.path)
	case err != nil:
		return cannotWrite(o.said, err)
	case info.IsDir():
		return withHint(fmt.Errorf("%s is a directory", o.said), "name a file in it: %s/report", o.said)
	case !info.Mode().IsRegular():
		return nil // /dev/null, a pipe: nothing is lost there, and looking may block
	}
	if read, err := os.Stat(hostfile); err == nil && os.SameFile(read, info) {
		return withHint(fmt.Errorf("%s would overwrite the hostfile", o.said), "name another file, as in -o report.json")
	}
	if err := o.replaceable(); err != nil {
		return err
	}
	return creatable(o.said, o.target())
}

// target is the file itself, behind any symbolic links: those are kept.
func (o output) target() string {
	if path, err := filepath.EvalSymlinks(o.path); err == nil {
		return path
	}
	return filepath.Clean(o.path)
}

// creatable makes a file beside the one to come, which only a try can tell, and takes
// it away.
func creatable(said, path string) error {
	file, err := beside(path)
	if err != nil {
		return cannotWrite(said, err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// beside makes a new file in the directory of another. It has the other's name inside
// its own and another ending, so that nobody who collects files by their ending meets it.
func beside(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// replaceable refuses a file that holds anything but an earlier report.
func (o output) replaceable() error {
	file, err := os.OpenFile(o.path, os.O_RDWR, 0)
	if err != nil {
		return cannotWrite(o.said, err)
	}
	defer file.Close()
	if !report.Wrote(file) {
		return withHint(fmt.Errorf("%s is there already and is no preflight report", o.said), "name another file, or remove that one")
	}
	return nil
}

// save puts the text where the output goes, whole or not at all: it is written beside
// and renamed, so that no collector or CI reader meets half of it. What has come to that
// place during the run is not overwritten either, unless it is ours.
func (o output) save(text []byte) error {
	info, err := os.Stat(o.path)
	if err == nil && !info.Mode().IsRegular() {
		if err := os.WriteFile(o.path, text, 0); err != nil {
			return cannotWrite(o.said, err)
		}
		return nil
	}
	if err == nil {
		if err := o.replaceable(); err != nil {
			return err
		}
	}
	file, err := beside(o.target())
	if err != nil {
		return cannotWrite(o.said, err)
	}
	_, err = file.Write(text)
	if info != nil {
		err = errors.Join(err, file.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), o.target())
	}
	if err != nil {
		os.Remove(file.Name())
		return cannotWrite(o.said, err)
	}
	return nil
}

// cannotWrite says which output, and the system's reason without a path of its own.
func cannotWrite(said string, err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		err = in.Err
	}
	if in, ok := errors.AsType[*os.LinkError](err); ok {
		err = in.Err
	}
	return withHint(fmt.Errorf("%s cannot be written: %w", said, err), "name a file in a directory of yours")
}
