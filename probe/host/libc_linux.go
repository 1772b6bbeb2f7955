// SPDX-License-Identifier: Apache-2.0

package host

import (
	"debug/elf"
	"io"
	"path/filepath"
	"strings"

	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

var (
	// glibcFile matches the loader's real file name before 2.34, which contains the release.
	glibcFile = lazyregexp.New(`^ld-(2\.\d+(?:\.\d+)?)\.so$`)
	// glibcBanner matches the output of ld.so --version since 2.33 (glibc, elf/dl-usage.c).
	glibcBanner = lazyregexp.New(` release version (2\.\d+(?:\.\d+)?)`)
	// muslVersion matches the version in musl's loader, which is a separate string
	// (src/internal/version.c).
	muslVersion = lazyregexp.New(`\x00(1\.\d+\.\d+)(?:-git-[^\x00]*)?\x00`)
)

// libc returns the C library of this machine's programs, without starting a program. /bin/sh names
// its loader, and the loader contains the version. libc returns "" if /bin/sh is static or the
// loader contains no version.
func libc(o machine.Options) string {
	loader := machine.LoaderOf(o.At("/bin/sh"))
	if loader == "" {
		return ""
	}
	path, err := filepath.EvalSymlinks(o.At(loader))
	if err != nil {
		return ""
	}
	if m := glibcFile.FindStringSubmatch(filepath.Base(path)); m != nil {
		return "glibc " + m[1]
	}
	return parseLoader(filepath.Base(loader), readOnlyData(path))
}

// parseLoader finds the version in a loader's constants.
func parseLoader(name string, constants []byte) string {
	family, version := "glibc", glibcBanner
	if strings.HasPrefix(name, "ld-musl-") {
		family, version = "musl", muslVersion
	}
	if m := version.FindSubmatch(constants); m != nil {
		return family + " " + string(m[1])
	}
	return ""
}

// readOnlyData returns the section of constants, but no more than 1 MiB of it. In loaders this
// section has about 25 to 150 KiB.
func readOnlyData(path string) []byte {
	library, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer library.Close()
	section := library.Section(".rodata")
	if section == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(section.Open(), 1<<20))
	if err != nil {
		return nil
	}
	return data
}
