package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"preflight/report"
)

// writable refuses before the run an --output that could not be written after
// it, or that would cost its user a file. hostfile is the one that was read, ""
// for none.
func (c Config) writable(hostfile string) error {
	if c.Output == "" || c.Output == "-" {
		return nil
	}
	info, err := os.Stat(c.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return creatable("-o", c.Output)
	case err != nil:
		return cannotWrite("-o", c.Output, err)
	case info.IsDir():
		return withHint(fmt.Errorf("-o %s is a directory", c.Output), "name a file in it: -o %s/report.json", c.Output)
	case !info.Mode().IsRegular():
		return nil // /dev/null, a pipe: nothing is lost there, and looking may block
	}
	if read, err := os.Stat(hostfile); err == nil && os.SameFile(read, info) {
		return withHint(fmt.Errorf("-o %s would overwrite the hostfile", c.Output), "name another file, as in -o report.json")
	}
	return replaceable(c.Output)
}

// creatable tries to make the file, which only a try can tell, and takes it away.
func creatable(flag, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return cannotWrite(flag, path, err)
	}
	return errors.Join(file.Close(), os.Remove(path))
}

// replaceable refuses a file that holds anything but an earlier report.
func replaceable(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return cannotWrite("-o", path, err)
	}
	defer file.Close()
	if !report.Wrote(file) {
		return withHint(fmt.Errorf("-o %s is there already and is no preflight report", path), "name another file, or remove that one")
	}
	return nil
}

func cannotWrite(flag, path string, err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		err = in.Err
	}
	return withHint(fmt.Errorf("%s %s cannot be written: %w", flag, path, err), "name a file in a directory of yours")
}
