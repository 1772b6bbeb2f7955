package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"preflight/report/formats"

	"golang.org/x/term"
)

// product is what a command writes: the formats, and what a file of one is worth.
type product struct {
	formats []string
	worth   func(formats.Format) formats.Kept
}

// ofARun is what the commands write that judge nodes.
func ofARun() product { return product{formats.Names(), formats.Format.Worth} }

// writable refuses before the run outputs that could not be written after it, that
// would cost their user a file, or whose format the command does not write. Those are
// the files it reads, by what they are, such as "the hostfile"; a path may be "".
func (c Config) writable(written product, those map[string]string) error {
	if err := oneOf("format", c.Format, written.formats); err != nil {
		return err
	}
	outputs := c.outputs()
	for _, o := range outputs {
		switch {
		case !o.row().Hosts && !slices.Contains(written.formats, o.format):
			return o.unknownFormat(written.formats)
		case o.isBareFormat():
			return withHint(fmt.Errorf("%s names a format and no file", o.said), "-o %s=FILE writes it, --format %s prints it; a file of such a name is ./%s", o.path, o.path, o.path)
		case o.isPrinted() && o.row().Unread && term.IsTerminal(int(os.Stdout.Fd())):
			return withHint(fmt.Errorf("%s says nothing to a person on a terminal", o.row().Is), "-o %s=report.%[1]s writes it to a file", o.format)
		}
	}
	if err := distinct(outputs); err != nil {
		return err
	}
	read := map[string]string{"the configuration": c.Stated.file}
	maps.Copy(read, those)
	for _, o := range outputs {
		if err := o.writable(read, written.worth(o.row())); err != nil {
			return err
		}
	}
	return nil
}

// unknownFormat says which formats there are, the likely one first.
func (o output) unknownFormat(known []string) error {
	if slices.Contains(formats.Names(), o.format) {
		return withHint(fmt.Errorf("%s: this command does not write %s", o.said, o.format), "it writes %s: -o %s=%s", strings.Join(known, ", "), known[0], o.path)
	}
	near := nearest(o.format, known)
	if meant := formats.ByEnding("." + o.format); slices.Contains(known, meant) {
		near = fmt.Sprintf(": the nearest is %q", meant)
	}
	return withHint(fmt.Errorf("%s: there is no format %q%s", o.said, o.format, near),
		"formats are %s; a file of such a name is ./%s=%s", strings.Join(known, ", "), o.format, o.path)
}

// writable refuses an output that could not be written, or would cost its user a file;
// kept is what the output will be worth.
func (o output) writable(those map[string]string, kept formats.Kept) error {
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
	}
	for what, path := range those {
		if read, err := os.Stat(path); err == nil && os.SameFile(read, info) {
			return withHint(fmt.Errorf("%s would overwrite %s", o.said, what), "name another file, as in -o report.json")
		}
	}
	if stream(info) != nil || !info.Mode().IsRegular() {
		return nil // /dev/null, a pipe: nothing is lost there, and looking may block
	}
	if o.isAdded() {
		return nil
	}
	return o.replaceable(kept)
}

// stream is our own standard output or error where a file is that: whoever redirected it
// holds it open, and what is printed behind the report is to stand behind it.
func stream(info fs.FileInfo) *os.File {
	for _, open := range []*os.File{os.Stdout, os.Stderr} {
		if ours, err := open.Stat(); err == nil && os.SameFile(ours, info) {
			return open
		}
	}
	return nil
}

// target is the file itself, behind any symbolic links: those are kept. Of a file that is
// not there yet it is where that will be.
func (o output) target() string {
	path, err := filepath.Abs(o.path)
	if err != nil {
		return filepath.Clean(o.path)
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
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

// replaceable refuses a file that holds anything but an earlier report, and one that is
// worth more than what is to be written: the facts of a run are in no page about it.
func (o output) replaceable(by formats.Kept) error {
	file, err := os.OpenFile(o.path, os.O_RDWR, 0)
	if err != nil {
		return cannotWrite(o.said, err)
	}
	defer file.Close()
	switch there := formats.Wrote(file); {
	case there == formats.Foreign:
		return withHint(fmt.Errorf("%s is there already and is no preflight report", o.said), "name another file, or remove that one")
	case there <= by:
		return nil
	case there == formats.NormalizedSnapshot:
		return withHint(fmt.Errorf("%s is there already and is a normalized snapshot", o.said), "name another file; preflight snapshot --normalize is what writes that one anew")
	}
	return withHint(fmt.Errorf("%s is there already and has the facts of a run, which would be lost", o.said), "name another file, or remove that one")
}

// isAdded is whether the report goes where others stand: every command of a step of GitHub
// Actions adds to the step's summary (docs.github.com, "Workflow commands", Adding a job
// summary).
func (o output) isAdded() bool {
	path := os.Getenv(o.row().AddedTo)
	return path != "" && !o.isPrinted() && o.isAlso(output{path: path})
}

// add puts the text behind what the file holds, as a paragraph of its own.
func (o output) add(text []byte) error {
	file, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return cannotWrite(o.said, err)
	}
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		text = append([]byte("\n\n"), text...)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return cannotWrite(o.said, err)
	}
	return nil
}

// save puts the text where the output goes, whole or not at all: it is written beside
// and renamed, so that no collector or CI reader meets half of it. What has come to that
// place during the run is not overwritten either, unless it is ours.
func (o output) save(text []byte) error {
	info, err := os.Stat(o.path)
	switch {
	case err != nil:
	case stream(info) != nil:
		if _, err := stream(info).Write(text); err != nil {
			return cannotWrite(o.said, err)
		}
		return nil
	case !info.Mode().IsRegular():
		return o.feed(text)
	case o.isAdded():
		return o.add(text)
	default:
		// Hosts for a DeepSpeed that knows no comments are nobody's, and replace reports.
		if err := o.replaceable(max(formats.Wrote(bytes.NewReader(text)), formats.Rendering)); err != nil {
			return err
		}
	}
	file, err := beside(o.target())
	if err != nil {
		return o.saveInPlace(text, info, err)
	}
	_, err = file.Write(text)
	if info != nil {
		err = errors.Join(err, file.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return cannotWrite(o.said, err)
	}
	if err := os.Rename(file.Name(), o.target()); err != nil {
		os.Remove(file.Name())
		return o.saveInPlace(text, info, err)
	}
	return nil
}

// saveInPlace writes over a file that nothing can be renamed to, and why: it is a mount
// point, as the termination log of Kubernetes and the single files of docker -v are, or
// its directory is not ours to write to. What it held is cut off last, so that a reader
// may meet half of each report, and never none.
func (o output) saveInPlace(text []byte, there fs.FileInfo, why error) error {
	if there == nil {
		return cannotWrite(o.said, why)
	}
	file, err := os.OpenFile(o.path, os.O_WRONLY, 0)
	if err != nil {
		return cannotWrite(o.said, err)
	}
	if _, err = file.Write(text); err == nil {
		err = file.Truncate(int64(len(text)))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return cannotWrite(o.said, err)
	}
	return nil
}

// feed writes to what is no file. Of a named pipe somebody must hold the other end
// already: to wait for a reader who never comes would look like a run without an end.
func (o output) feed(text []byte) error {
	file, err := os.OpenFile(o.path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return withHint(fmt.Errorf("%s is a pipe, and nobody reads it", o.said), "start its reader first")
	}
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return cannotWrite(o.said, err)
	}
	return nil
}

// cannotWrite says which output, and the system's reason without a path of its own.
func cannotWrite(said string, err error) error {
	return withHint(fmt.Errorf("%s cannot be written: %w", said, systemReason(err)), "name a file in a directory of yours")
}
