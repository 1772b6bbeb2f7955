// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// ncclName is the name by which torch requests NCCL from the loader.
const ncclName = "libnccl.so.2"

// isNCCL reports whether a name belongs to NCCL or to RCCL, ROCm's replacement for NCCL. RCCL is
// built as librccl.so.1, and the wheels of pytorch.org rename it (pytorch 2.5,
// .ci/manywheel/build_common.sh).
func isNCCL(name string) bool {
	return name == ncclName || name == "librccl.so" || name == "librccl.so.1"
}

// ncclSearch holds everything that determines which NCCL the loader gives to torch.
type ncclSearch struct {
	torchDir string   // torch's directory, "" if torch is not installed
	sysPath  []string // directories in which the nvidia wheels may be
	preload  string   // value of LD_PRELOAD
	path     string   // value of LD_LIBRARY_PATH
	workDir  string   // the directory for an empty entry in LD_LIBRARY_PATH
	at       func(path string) string
}

// findNCCL lists the NCCL libraries in the loader's order. It lists each file once, with the
// version that it finds in the file's bytes.
func findNCCL(ctx context.Context, s ncclSearch) []facts.NCCLLibrary {
	found := []facts.NCCLLibrary{}
	asIs := func(path string) string { return path } // the interpreter runs on the real machine
	for _, c := range machine.Present(s.candidates(), asIs) {
		library := facts.NCCLLibrary{Path: c.Path, From: c.From}
		library.Version, library.CUDA, library.HIP = readNCCLVersion(ctx, c)
		linked := !isNCCL(filepath.Base(c.Path)) && c.From == "torch"
		if library.Version == "" && linked {
			continue // this torch was built without NCCL
		}
		if !linked { // if NCCL is linked into torch, its code is next to torch's own
			library.Code = readGPUCode(ctx, c.Path)
		}
		found = append(found, library)
	}
	return found
}

// candidates follows ld.so(8). The loader searches the preloaded objects, then the DT_RPATH of the
// requesting library unless the library has a DT_RUNPATH. After these it searches LD_LIBRARY_PATH,
// DT_RUNPATH, the cache and the default directories.
//
// The PyPI wheels of torch have a DT_RPATH (pytorch .ci/manywheel/build_cuda.sh, FORCE_RPATH), so
// LD_LIBRARY_PATH does not override their nvidia-nccl wheel. Most other builds have a DT_RUNPATH,
// and LD_LIBRARY_PATH does override their NCCL.
func (s ncclSearch) candidates() []machine.Candidate {
	var all []machine.Candidate
	for _, path := range strings.FieldsFunc(s.preload, func(r rune) bool { return r == ':' || r == ' ' }) {
		if base := filepath.Base(path); strings.Contains(base, "libnccl.so") || strings.Contains(base, "librccl.so") {
			all = append(all, machine.Candidate{Path: path, From: "LD_PRELOAD"})
		}
	}
	torch := readTorchLinks(s.torchDir)
	name := cmp.Or(torch.needs, ncclName)
	if torch.path != "" && torch.needs == "" {
		all = append(all, machine.Candidate{Path: torch.path, From: "torch"}) // NCCL is linked in, so torch searches for none
	}
	all = append(all, torchCandidates(torch.rpath, name)...)
	all = append(all, machine.LibraryPathOrder(s.path, s.workDir, name)...)
	all = append(all, torchCandidates(torch.runpath, name)...)
	for _, c := range machine.SystemOrder(s.at, name) {
		all = append(all, machine.Candidate{Path: s.at(c.Path), From: c.From})
	}
	if name != ncclName {
		return all
	}
	// If the loader finds nothing, torch loads the wheel by its full path (torch/__init__.py,
	// _preload_cuda_deps).
	for _, dir := range s.sysPath {
		all = append(all, machine.Candidate{Path: filepath.Join(dir, "nvidia/nccl/lib", ncclName), From: "wheel"})
	}
	return all
}

// torchCandidates returns the libraries in the directories that torch's own file names.
func torchCandidates(dirs []string, name string) []machine.Candidate {
	var all []machine.Candidate
	for _, dir := range dirs {
		from := "torch"
		if strings.HasSuffix(filepath.Clean(dir), "nvidia/nccl/lib") {
			from = "wheel"
		}
		all = append(all, machine.Candidate{Path: filepath.Join(dir, name), From: from})
	}
	return all
}

// ncclVersion matches the version string in the read-only data of NCCL since 2.4.6 and of RCCL
// (ROCm/rccl 2.18, init.cc, VERSION_STRING).
var ncclVersion = lazyregexp.New(`[NR]CCL version (\d+\.\d+\.\d+)[^\s\x00+]{0,32}\+(?:cuda(\d+\.\d+)|hip(\d+\.\d+))`)

// readNCCLVersion finds the version in a library's bytes without loading the library. It reads the
// read-only data first, because the device code is nearly the whole file and cannot contain the
// version. torch's own library is a gigabyte and may not contain NCCL. In that library
// readNCCLVersion reads only the read-only data.
func readNCCLVersion(ctx context.Context, c machine.Candidate) (version, cuda, hip string) {
	f, err := os.Open(c.Path)
	if err != nil {
		return "", "", ""
	}
	defer f.Close()
	if object, err := elf.NewFile(f); err == nil {
		if data := object.Section(".rodata"); data != nil {
			version, cuda, hip = scanNCCLVersion(ctx, data.Open())
		}
		if version != "" || strings.HasPrefix(filepath.Base(c.Path), "libtorch") {
			return version, cuda, hip
		}
	}
	return scanNCCLVersion(ctx, io.NewSectionReader(f, 0, math.MaxInt64))
}

// scanNCCLVersion reads r in pieces, and holds no more than two of them in memory. The pieces
// overlap by more than the longest match.
func scanNCCLVersion(ctx context.Context, r io.Reader) (version, cuda, hip string) {
	const piece, overlap = 256 << 10, 128
	buffer := make([]byte, piece+overlap)
	kept := 0
	for ctx.Err() == nil {
		n, err := io.ReadFull(r, buffer[kept:])
		window := buffer[:kept+n]
		// This plain search is several times faster than the regular expression.
		if bytes.Contains(window, []byte("CCL version ")) {
			if match := ncclVersion.FindSubmatch(window); match != nil {
				return string(match[1]), string(match[2]), string(match[3])
			}
		}
		if err != nil {
			return "", "", ""
		}
		kept = copy(buffer, window[len(window)-overlap:])
	}
	return "", "", ""
}
