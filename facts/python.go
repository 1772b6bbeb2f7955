// SPDX-License-Identifier: Apache-2.0

package facts

// Python describes the interpreter that the launch will use, and the packages that it would import.
// The packages are read from their metadata. Only Broken and Damaged tell about imports.
type Python struct {
	// Path is the path of the requested interpreter. Found is false if it does not exist.
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Problem says why an existing interpreter did not answer. If the interpreter is a dangling
	// link, Problem is the path of the missing file.
	Problem    string   `json:"problem,omitempty" fact:"own"`
	Executable string   `json:"executable"` // sys.executable, with symlinks kept
	Version    string   `json:"version"`    // "3.11.7"
	Prefix     string   `json:"prefix"`
	SysPath    []string `json:"sys_path"` // sys.path as the launch will have it
	// Packages maps the normalised names of the relevant distributions to their versions. It has no
	// entry for a distribution that is not installed.
	Packages map[string]string `json:"packages"`
	// MetadataOnly lists packages that the launch imports but of which only the metadata is left.
	// pip still considers such a package installed.
	MetadataOnly []string `json:"metadata_only"`
	// Shadowed lists packages that exist in more than one directory of sys.path. Python imports the
	// first.
	Shadowed []string `json:"shadowed,omitempty"`
	// Damaged lists the packages whose files are not those that pip recorded when it installed
	// them. Uncompared says why not all files were compared, "" if they were.
	Damaged    []Damage `json:"damaged,omitempty" fact:"key=package"`
	Uncompared string   `json:"uncompared,omitempty" fact:"own"`
	// Broken lists the modules that the launch imports and that the node, asked to import them,
	// could not. It is empty if nothing was imported, and it lacks the modules for which there was
	// no time.
	Broken []BrokenImport `json:"broken,omitempty" fact:"key=module"`
	// ScriptError is the interpreter's syntax error for the script: "invalid syntax (train.py, line
	// 3)". The interpreter parses the script and does not run it. ScriptError is "" if the script
	// can be parsed, and if there is no script.
	ScriptError string `json:"script_error"`
	// Shadows lists the files that have the name of an installed module which the launch imports.
	// These files are next to the script, in the working directory or in PYTHONPATH.
	Shadows []Shadow `json:"shadows,omitempty" fact:"key=path"`
	// Unfound lists the modules that the launch may import but the interpreter cannot find. It is
	// nil if the interpreter was not asked. Modules that it finds are in Packages.
	Unfound []string `json:"unfound" fact:"own"`
	Torch   *Torch   `json:"torch"` // nil if torch is not installed
	// Elsewhere lists other interpreters, in the usual places for environments, that have torch.
	// The node looks for them only if this interpreter does not exist or has no torch.
	Elsewhere []string `json:"elsewhere,omitempty" fact:"own"`
	// Ops maps each extension of DeepSpeed to whether the installed package contains it in compiled
	// form, according to the package itself. It is nil if the package does not say.
	Ops map[string]bool `json:"deepspeed_ops,omitempty"`
	// NCCL lists every NCCL that could be loaded, in the loader's order: torch loads the first. An
	// NCCL that is linked into torch has the path of torch's own library.
	NCCL []NCCLLibrary `json:"nccl" fact:"key=path"`
	// Protobuf says which generated code needs another protobuf runtime.
	Protobuf *Protobuf `json:"protobuf"`
}

// Damage describes an installed package that is not whole: files are missing, too short or
// unreadable.
type Damage struct {
	Package string        `json:"package"` // its normalised name
	Version string        `json:"version"`
	Dir     string        `json:"dir"`   // the directory in sys.path that contains it
	Files   []DamagedFile `json:"files"` // the first few of these files
	Count   int           `json:"count"` // the number of these files
	// Module is the module that needs the files: the package's own, or that of the package to which
	// a library belongs. Import is the error of importing it. It is "" if the import worked, which
	// Imported says, and if there was no time for it.
	Module   string `json:"module"`
	Import   string `json:"import,omitempty"`
	Imported bool   `json:"imported,omitempty"`
}

// BrokenImport is a module that was found and whose import failed.
type BrokenImport struct {
	Module string `json:"module"`
	Error  string `json:"error"`          // the last line of the traceback, or how the interpreter ended
	File   string `json:"file,omitempty"` // the file that raised the error; "" if the interpreter crashed
	// Because is a variable and its value, "LD_PRELOAD=libx.so", if the import works without it.
	Because string `json:"because,omitempty"`
}

// DamagedFile is a file that differs from the installer's record of it.
type DamagedFile struct {
	Path     string `json:"path"`                  // below the directory of the package
	Problem  string `json:"problem,omitempty"`     // "missing", or why it cannot be read; "" if it is too short
	Size     int64  `json:"size" unit:"bytes"`     // 0 if Problem is set
	Recorded int64  `json:"recorded" unit:"bytes"` // the size that it should have
}

// These are the places that Python searches before its own library.
const (
	InScriptDir  = "script"
	InWorkDir    = "workdir"
	InPythonPath = "PYTHONPATH"
)

// Shadow is a file or package that Python imports instead of an installed module.
type Shadow struct {
	Path   string `json:"path"`   // the file that is imported
	Module string `json:"module"` // "random"
	In     string `json:"in"`     // the place that Python searches first: script, workdir, PYTHONPATH
	Hides  string `json:"hides"`  // the file that Python would import otherwise
	// Copy reports whether the shadow is a package with most of the hidden package's content.
	Copy bool `json:"copy,omitempty"`
}

// Torch says how torch was built, according to torch/version.py.
type Torch struct {
	Version string `json:"version"` // "2.5.1+cu124"
	CUDA    string `json:"cuda"`    // "12.4", "" for a CPU build
	HIP     string `json:"hip,omitempty"`
	// Unloadable is the loader's message if it cannot load torch's libraries: "libstdc++.so.6: file
	// too short". It is "" if the loader can load them, and if the loader was not asked.
	Unloadable string `json:"unloadable"`
	// NCCLWheel is the version of the nvidia-nccl wheel that torch requires, "" if torch contains
	// its own NCCL.
	NCCLWheel string `json:"nccl_wheel,omitempty"`
	// CUDALibrary is torch's library for GPUs. This library loads NCCL, or NCCL is linked into it.
	// It is "" if torch has no such library.
	CUDALibrary string `json:"cuda_library" fact:"own"`
}

// NCCLLibrary is one libnccl.so.2, or RCCL's librccl.so.1 for a ROCm torch. The version is read
// from the bytes of the file.
type NCCLLibrary struct {
	Path    string `json:"path"`
	Version string `json:"version"` // such as "2.21.5"; "" if the file has no version
	CUDA    string `json:"cuda"`    // "12.4"
	HIP     string `json:"hip"`     // for RCCL, such as "6.2"
	From    string `json:"from"`    // LD_PRELOAD, LD_LIBRARY_PATH, wheel, torch, ld.so.cache, default
	// Code lists the GPU targets for which the library has code. "sm_90" is machine code for
	// compute capability 9.0. "compute_90" is PTX, which a driver translates for that capability
	// and later. Code is nil if unknown, as for an NCCL that is linked into torch.
	Code []string `json:"code"`
}

// Protobuf holds what decides whether generated protobuf code can load.
type Protobuf struct {
	Runtime string `json:"runtime"` // installed version
	// OldGenerated lists packages whose _pb2.py files were generated by protoc before 3.19. With
	// runtime 4 and later these files fail with "Descriptors cannot be created directly".
	OldGenerated []string `json:"old_generated"`
	// NewGenerated lists packages whose _pb2.py files need a newer runtime than Runtime. Each entry
	// names the version that the package needs ("onnx needs 5.26.1").
	NewGenerated []string `json:"new_generated"`
	// Implementation is the value of PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, "" if it is unset.
	Implementation string `json:"implementation"`
}

// Toolchain describes the programs and files that compile DeepSpeed's ops on a node, if the launch
// needs them. torch.utils.cpp_extension looks for the same things in the same places.
type Toolchain struct {
	CUDAHome string `json:"cuda_home"` // where torch would find the CUDA toolkit, "" if it would find none
	// CUDAFrom is the rule by which torch finds the toolkit: CUDA_HOME, CUDA_PATH, nvcc in PATH,
	// /usr/local/cuda.
	CUDAFrom string `json:"cuda_from,omitempty"`
	NVCC     string `json:"nvcc"` // $CUDAHome/bin/nvcc, "" if it does not exist
	CUDA     string `json:"cuda"` // the toolkit's version, "12.4"; "" if unknown
	CXX      string `json:"cxx"`  // the compiler that torch would run ($CXX, else c++), "" if not in PATH
	// CXXVersion is what the compiler prints for -dumpfullversion -dumpversion, "" if it prints
	// nothing.
	CXXVersion string `json:"cxx_version,omitempty"`
	// InductorCXX and TritonCC are the compilers that torch.compile would run, "" if not in PATH:
	// $CXX, else g++ for Inductor; $CC, else gcc or clang for Triton.
	InductorCXX string `json:"inductor_cxx,omitempty"`
	TritonCC    string `json:"triton_cc,omitempty"`
	Ninja       string `json:"ninja"`                     // path of ninja in PATH, "" if not found
	PythonH     bool   `json:"python_h"`                  // the interpreter's headers are installed
	Include     string `json:"include,omitempty"`         // the directory in which they must be, "" if the interpreter did not say
	LibAIO      bool   `json:"libaio"`                    // libaio.h and libaio.so exist, which async_io needs
	Extensions  string `json:"extensions"`                // where torch keeps compiled extensions: TORCH_EXTENSIONS_DIR, else ~/.cache/torch_extensions
	Lock        string `json:"lock,omitempty" fact:"own"` // an abandoned lock in Extensions, for which a build waits forever
	// Builds lists the directories in which the launch's ops are compiled, by op. Built lists the
	// ops that are already compiled in them.
	Builds []Place  `json:"builds,omitempty" fact:"key=role"`
	Built  []string `json:"built,omitempty" fact:"volatile"`
}
