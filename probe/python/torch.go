// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// readTorch reads how torch was built. It reads the version.py in torch's directory, and torch's
// metadata. dir is "" if no version.py was found. readTorch returns nil if torch is not installed.
func readTorch(dir string, installed []installedPackage) *facts.Torch {
	if dir == "" && len(installed) == 0 {
		return nil
	}
	torch := &facts.Torch{}
	if dir != "" {
		// The file existed a moment ago. If it is gone, the metadata counts.
		text, _ := os.ReadFile(filepath.Join(dir, "version.py"))
		*torch = parseTorchVersion(string(text))
		torch.CUDALibrary = readTorchLinks(dir).path
	}
	if len(installed) == 0 {
		return torch
	}
	if torch.Version == "" {
		torch.Version = installed[0].version
	}
	headers(installed[0].metadata, func(key, value string) bool {
		if key == "Requires-Dist" {
			torch.NCCLWheel = parseNCCLRequirement(value)
		}
		return torch.NCCLWheel == ""
	})
	return torch
}

// ownLibraries matches the libraries that are part of torch. The loader may not find the other
// libraries by itself, because torch/__init__.py first loads CUDA's libraries by their paths.
var ownLibraries = lazyregexp.New(`^lib(?:torch|c10)`)

// unloadable returns the loader's error about any library that torch's extension module is linked
// to.
func unloadable(ctx context.Context, interpreter, torchDir, dir string) string {
	modules, _ := filepath.Glob(filepath.Join(torchDir, "_C.*.so")) // the pattern is valid
	if len(modules) == 0 {
		return ""
	}
	return machine.Refused(ctx, machine.Linked{Program: interpreter, Object: modules[0], Dir: dir, Needed: ownLibraries})
}

// assignment matches a line of torch/version.py, such as __version__ = '2.5.1+cu124' or cuda:
// Optional[str] = '12.4'. It does not match the value None.
var assignment = lazyregexp.New(`(?m)^(__version__|cuda|hip)\s*(?::[^=]*)?=\s*['"]([^'"]*)['"]`)

func parseTorchVersion(text string) facts.Torch {
	var torch facts.Torch
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		switch match[1] {
		case "__version__":
			torch.Version = match[2]
		case "cuda":
			torch.CUDA = match[2]
		case "hip":
			torch.HIP = match[2]
		}
	}
	return torch
}

// ncclRequirement matches a Requires-Dist line of torch's wheel, in both spellings that occur:
// "nvidia-nccl-cu12==2.21.5; …" and "nvidia-nccl-cu12 (==2.18.1) ; …".
var ncclRequirement = lazyregexp.New(`^nvidia-nccl-cu\d+\s*\(?==\s*([\d.]+)`)

func parseNCCLRequirement(requirement string) string {
	if match := ncclRequirement.FindStringSubmatch(strings.TrimSpace(requirement)); match != nil {
		return match[1]
	}
	return ""
}

// torchLinks says how torch's GPU library finds NCCL or RCCL.
type torchLinks struct {
	path  string // "" if this torch has no such library
	needs string // the name that the library requests; "" if NCCL is linked into it, or if it has no NCCL
	// rpath and runpath list directories, with $ORIGIN replaced. An object uses only one of the
	// two: glibc ignores DT_RPATH if there is a DT_RUNPATH.
	rpath, runpath []string
}

// readTorchLinks reads the dynamic section of libtorch_cuda.so. torch 1.10 to 1.12 split that
// library into parts, and a torch for ROCm has an equivalent; readTorchLinks reads these too.
func readTorchLinks(torchDir string) torchLinks {
	if torchDir == "" {
		return torchLinks{}
	}
	lib := filepath.Join(torchDir, "lib")
	for _, name := range []string{"libtorch_cuda_cpp.so", "libtorch_cuda.so", "libtorch_hip.so"} {
		path := filepath.Join(lib, name)
		object, err := elf.Open(path)
		if err != nil {
			continue
		}
		defer object.Close()
		needed, _ := object.ImportedLibraries() // an object without a dynamic section needs nothing
		links := torchLinks{path: path}
		if at := slices.IndexFunc(needed, isNCCL); at >= 0 {
			links.needs = needed[at]
		}
		links.runpath = searchPath(object, elf.DT_RUNPATH, lib)
		if links.runpath == nil {
			links.rpath = searchPath(object, elf.DT_RPATH, lib)
		}
		return links
	}
	return torchLinks{}
}

func searchPath(object *elf.File, tag elf.DynTag, origin string) []string {
	values, _ := object.DynString(tag)
	var dirs []string
	for _, value := range values {
		for dir := range strings.SplitSeq(value, ":") {
			dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}
