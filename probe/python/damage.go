// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// compareLimit is the time limit for the comparison of the files, which may be on a slow
	// network file system.
	compareLimit = 2 * time.Second
	// mostDamaged limits how many files are reported for each package.
	mostDamaged = 3
	// recordLimit is the largest RECORD that is read, in bytes. That of torch 2.15 has 1.3 MB.
	recordLimit = 8 << 20
	// unitOfCopy divides the size of a file whose copy was interrupted, because cp, tar and file
	// systems write in multiples of it.
	unitOfCopy = 512
)

// ofTorch and ofDeepSpeed list the packages that an import of torch or deepspeed needs.
var (
	ofTorch     = []string{"torch", "nvidia-"}
	ofDeepSpeed = []string{"deepspeed", "hjson", "msgpack", "ninja", "numpy", "packaging", "psutil", "py-cpuinfo", "pydantic", "pydantic-core", "tqdm"}
)

// needs returns the module that needs a package's files, or "" if the launch is not known to import
// the package.
func (s site) needs(name string, modules []string) string {
	own := strings.ReplaceAll(name, "-", "_")
	switch {
	case isAmong(ofTorch, name):
		return "torch"
	case isAmong(ofDeepSpeed, name) && s.installed["deepspeed"] != nil:
		return "deepspeed"
	case slices.Contains(launched, name), slices.Contains(modules, own):
		return own
	}
	return ""
}

// damage compares the files of the packages that the launch imports with the sizes that pip
// recorded when it installed them. unfinished says why not all files were compared.
//
// Packages of conda and of distributions have no record, or one of files that were changed later.
func damage(ctx context.Context, o machine.Options, s site) (damaged []facts.Damage, unfinished string) {
	limited, cancel := context.WithTimeoutCause(ctx, compareLimit, fmt.Errorf("their files did not answer within %s", compareLimit))
	defer cancel()
	damaged, err := machine.Within(limited, func() (damaged []facts.Damage, err error) {
		for _, name := range slices.Sorted(maps.Keys(s.installed)) {
			if module := s.needs(name, o.Modules); module != "" {
				if d := leastDamaged(limited, s.installed[name]); d.Count > 0 {
					d.Package, d.Module = name, module
					damaged = append(damaged, d)
				}
			}
		}
		return damaged, limited.Err()
	})
	if err != nil {
		unfinished = err.Error()
	}
	return damaged, unfinished
}

// leastDamaged compares the files with each record of one package in the directory from which it is
// imported, and returns what the files agree with most. An interrupted upgrade leaves two records.
func leastDamaged(ctx context.Context, records []installedPackage) (least facts.Damage) {
	for i, record := range records {
		if record.dir != records[0].dir {
			continue
		}
		if d := compareFiles(ctx, record); i == 0 || d.Count < least.Count {
			least = d
		}
	}
	return least
}

func compareFiles(ctx context.Context, p installedPackage) facts.Damage {
	d := facts.Damage{Version: p.version, Dir: p.dir}
	if machine.Line(filepath.Join(p.metadata, "INSTALLER")) == "conda" {
		return d
	}
	record, err := os.Open(filepath.Join(p.metadata, "RECORD"))
	if err != nil {
		return d
	}
	defer record.Close()
	lines := bufio.NewScanner(io.LimitReader(record, recordLimit))
	for lines.Scan() {
		name, size, counts := parseRecord(lines.Bytes())
		if !counts {
			continue
		}
		if ctx.Err() != nil {
			return d
		}
		if file, isWrong := compareFile(p.dir, name, size); isWrong {
			if d.Count++; len(d.Files) < mostDamaged {
				d.Files = append(d.Files, file)
			}
		}
	}
	return d
}

// everRead matches the directories of torch and DeepSpeed whose modules every launch imports.
var everRead = lazyregexp.New(`^(torch/(autograd|distributed|nn|optim|utils)|deepspeed/(comm|launcher|runtime|utils))/`)

// parseRecord parses a line of a RECORD: a path, a hash and a size in bytes. counts is true for
// libraries, Triton's compilers, and the Python files without which most imports fail.
func parseRecord(line []byte) (name string, size int64, counts bool) {
	file, rest, _ := bytes.Cut(line, []byte(","))
	if bytes.HasSuffix(file, []byte(".py")) {
		depth := bytes.Count(file, []byte("/"))
		counts = depth <= 1 || depth == 2 && (bytes.HasSuffix(file, []byte("/__init__.py")) || everRead.Match(file))
	} else {
		counts = bytes.Contains(file, []byte(".so")) || bytes.HasPrefix(file, []byte("triton/")) && bytes.Contains(file, []byte("/bin/"))
	}
	if !counts || file[0] == '.' || file[0] == '/' || file[0] == '"' { // scripts of the environment, or a name with a comma
		return "", 0, false
	}
	_, recorded, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(","))
	size, err := strconv.ParseInt(string(recorded), 10, 64)
	return string(file), size, err == nil
}

// compareFile compares a file with its recorded size. People change Python files, and tools that
// strip or patch libraries make them a little smaller or larger, so a Python file counts only if it
// is empty or looks like a part of a copy.
func compareFile(dir, name string, recorded int64) (file facts.DamagedFile, isWrong bool) {
	file = facts.DamagedFile{Path: name, Recorded: recorded}
	at := dir + "/" + name
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		file.Problem = "missing"
		if target := machine.BrokenLink(at); target != "" {
			file.Problem = target
		}
		return file, true
	case err != nil:
		file.Problem = machine.Reason(err)
		return file, true
	case info.Mode()&0o444 != 0o444:
		f, err := os.Open(at)
		if err != nil {
			file.Problem = machine.Reason(err)
			return file, true
		}
		f.Close()
	}
	file.Size = info.Size()
	return file, file.Size < recorded && (!strings.HasSuffix(name, ".py") || file.Size%unitOfCopy == 0)
}
