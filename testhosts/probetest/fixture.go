// SPDX-License-Identifier: Apache-2.0

// Package probetest builds machines for the tests of the probe: file trees that replace /proc,
// /sys, /dev and /etc, programs that answer like the real ones, and the loader's cache. Only tests
// import it.
package probetest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"preflight/probe/machine"
)

// Write writes files below the root of a fixture or of an empty machine. It returns the options
// with that root.
func Write(t *testing.T, o machine.Options, files map[string]string) machine.Options {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	for name, text := range files {
		path := o.At(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// Script writes an executable shell script and returns its path.
func Script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Program(t, path, "#!/bin/sh\n"+body)
	return path
}

// Link creates a symbolic link below the root of a fixture.
func Link(t *testing.T, o machine.Options, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(o.At(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, o.At(path)); err != nil {
		t.Fatal(err)
	}
}

// Plant extracts a txtar archive into a new directory and returns its path.
func Plant(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(archive)), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Machine extracts testdata/NAME.txtar and returns options that make a probe read it as a machine.
// A file whose name ends with "@" becomes a symbolic link, and its content is the target.
func Machine(t *testing.T, name string) machine.Options {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 {
		t.Fatalf("%s.txtar holds no files", name)
	}
	o := machine.Options{Root: t.TempDir()}
	for _, file := range archive.Files {
		if link, isLink := strings.CutSuffix(file.Name, "@"); isLink {
			Link(t, o, strings.TrimSpace(string(file.Data)), link)
		} else {
			Write(t, o, map[string]string{file.Name: string(file.Data)})
		}
	}
	return o
}

// Program writes a file that can be run immediately. With a plain write, a process that another
// test forks could inherit the file while it is open for writing. The kernel refuses to run such a
// file.
func Program(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// LoaderCache writes an /etc/ld.so.cache with the given names and paths, in the given order (glibc,
// sysdeps/generic/dl-cache.h).
func LoaderCache(t *testing.T, path string, flags int32, libraries ...[2]string) {
	t.Helper()
	const header, entry = 48, 24
	text := new(bytes.Buffer)
	offset := func(s string) uint32 {
		at := header + entry*len(libraries) + text.Len()
		text.WriteString(s + "\x00")
		return uint32(at)
	}
	file := bytes.NewBufferString("ld.so-1.7.0\x00\x00\x00\x00\x00") // an empty cache in the old format
	put := func(words ...uint32) {
		if err := binary.Write(file, binary.NativeEndian, words); err != nil {
			t.Fatal(err)
		}
	}
	file.WriteString("glibc-ld.so.cache1.1")
	put(uint32(len(libraries)), 0, 0, 0, 0, 0, 0)
	for _, l := range libraries {
		put(uint32(flags), offset(l[0]), offset(l[1]), 0, 0, 0)
	}
	file.Write(text.Bytes())
	Write(t, machine.Options{Root: "/"}, map[string]string{path: file.String()})
}
