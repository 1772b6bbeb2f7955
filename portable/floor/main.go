// SPDX-License-Identifier: Apache-2.0

// Command floor prints what a finished binary needs from the machines that it is sent to, and fails
// if that is more than they have:
//
//	go run ./portable/floor -glibc 2.28 FILE…
//
// It reads the file as the system's loader would, so the result is about what was really linked. It
// does not run the file, and ignores what the loader ignores.
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
)

func main() {
	glibc := flag.String("glibc", "2.28", "the oldest glibc the binaries must start with")
	flag.Parse()
	floor, err := version.NewVersion(*glibc)
	if err != nil || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: floor [-glibc VERSION] FILE…")
		os.Exit(2)
	}
	failed := false
	for _, path := range flag.Args() {
		needs, err := look(path, floor)
		if err != nil {
			fmt.Fprintf(os.Stderr, "floor: %s: %v\n", path, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %s\n", path, needs)
	}
	if failed {
		os.Exit(1)
	}
}

// loaders are the paths of the loader on every distribution with glibc (the ABI supplements of the
// two architectures; Debian, Red Hat and SUSE).
var loaders = map[elf.Machine]string{
	elf.EM_X86_64:  "/lib64/ld-linux-x86-64.so.2",
	elf.EM_AARCH64: "/lib/ld-linux-aarch64.so.1",
}

// ofGlibc are the libraries that come with every glibc release so far.
var ofGlibc = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2", "libresolv.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

// look returns what a binary needs. The error names everything that is wrong with it.
func look(path string, floor *version.Version) (needs string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	loader := ""
	if interpreter := f.Section(".interp"); interpreter != nil {
		text, err := interpreter.Data()
		if err != nil {
			return "", err
		}
		loader = string(bytes.TrimRight(text, "\x00"))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return "", err
	}
	if loader == "" && len(libraries) == 0 {
		return "needs no C library", nil
	}
	var wrong []error
	if want := loaders[f.Machine]; loader != want {
		wrong = append(wrong, fmt.Errorf("its loader is %q, but the loader of %v is %q", loader, f.Machine, want))
	}
	for _, library := range libraries {
		if !slices.Contains(ofGlibc, library) {
			wrong = append(wrong, fmt.Errorf("it needs %s, which some machines lack", library))
		}
	}
	highest, err := asked(f, floor)
	return "needs glibc " + highest, errors.Join(append(wrong, err, binding(f))...)
}

// asked returns the highest version of glibc that a binary needs. The loader refuses a version that
// it does not know even if no symbol has it, such as the GLIBC_ABI_DT_RELR of binaries with packed
// relocations.
func asked(f *elf.File, floor *version.Version) (highest string, err error) {
	libraries, err := f.DynamicVersionNeeds()
	if err != nil {
		return "", err
	}
	most := version.Must(version.NewVersion("0"))
	var wrong []error
	for _, library := range libraries {
		for _, need := range library.Needs {
			text, ours := strings.CutPrefix(need.Dep, "GLIBC_")
			v, err := version.NewVersion(text)
			switch {
			case !ours || err != nil:
				wrong = append(wrong, fmt.Errorf("it needs %s of %s, which is not a version of glibc", need.Dep, library.Name))
				continue
			case v.GreaterThan(floor):
				wrong = append(wrong, fmt.Errorf("it needs glibc %s%s, but must start on %s: add the function to package portable", text, of(f, need.Dep), floor.Original()))
			}
			if v.GreaterThan(most) {
				most, highest = v, text
			}
		}
	}
	return highest, errors.Join(wrong...)
}

// of returns the names of the symbols that need a version.
func of(f *elf.File, dep string) string {
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return ""
	}
	var names []string
	for _, symbol := range symbols {
		if symbol.Version == dep {
			names = append(names, symbol.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return " for " + strings.Join(names, ", ")
}

// binding returns an error if the binary cannot resolve functions after its start, or has text
// relocations. NVML's library is loaded later, so its functions are not known at the start.
func binding(f *elf.File) error {
	set := func(tag elf.DynTag, flag uint64) bool {
		values, err := f.DynValue(tag)
		return err == nil && slices.ContainsFunc(values, func(value uint64) bool { return flag == 0 || value&flag != 0 })
	}
	var wrong []error
	if set(elf.DT_BIND_NOW, 0) || set(elf.DT_FLAGS, uint64(elf.DF_BIND_NOW)) || set(elf.DT_FLAGS_1, uint64(elf.DF_1_NOW)) {
		wrong = append(wrong, errors.New("it is linked with -z now, so it stops before main if NVML is missing: build it with make, which links with -z lazy"))
	}
	if set(elf.DT_TEXTREL, 0) || set(elf.DT_FLAGS, uint64(elf.DF_TEXTREL)) {
		wrong = append(wrong, errors.New("it has text relocations, which hardened kernels refuse"))
	}
	return errors.Join(wrong...)
}
