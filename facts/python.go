// SPDX-License-Identifier: Apache-2.0

package facts

// Python is the interpreter the launch will use and the packages it would
// import, read from their metadata; torch itself is never imported.
type Python struct {
	// Path is the interpreter asked for; Found is false when it is not there.
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Problem says why an interpreter that is there did not answer, or to what
	// missing file one that is not there is a link.
	Problem    string   `json:"problem,omitempty" fact:"own"`
	Executable string   `json:"executable"` // sys.executable, symlinks kept
	Version    string   `json:"version"`    // "3.11.7"
	Prefix     string   `json:"prefix"`
	SysPath    []string `json:"sys_path"` // sys.path as the launch will have it
	// Packages are the distributions that matter, by normalised name; one
	// that is absent is not in the map.
	Packages map[string]string `json:"packages"`
	// MetadataOnly are those a launch imports of which nothing but the metadata is left, by
	// which pip takes them for installed.
	MetadataOnly []string `json:"metadata_only"`
	// Shadowed lists packages that lie in more than one directory of
	// sys.path; the first wins.
	Shadowed []string `json:"shadowed,omitempty"`
	// ScriptError is what the interpreter says of a script that is not its language, which
	// it reads and does not run: "invalid syntax (train.py, line 3)". It is "" where it
	// reads it, and where there is no script to ask about.
	ScriptError string `json:"script_error"`
	// Shadows are what lies beside the script, in the working directory or in PYTHONPATH
	// and takes the name of a module that is installed, of those the launch imports.
	Shadows []Shadow `json:"shadows,omitempty" fact:"key=path"`
	// Unfound are the modules that the interpreter finds nowhere, of those the launch may
	// import; nil where it was not asked. What is installed is told by Packages.
	Unfound []string `json:"unfound" fact:"own"`
	Torch   *Torch   `json:"torch"` // nil when torch is not installed
	// Ops are DeepSpeed's extensions and whether the installed package brings them
	// compiled, by its own account; nil where it gives none.
	Ops map[string]bool `json:"deepspeed_ops,omitempty"`
	// NCCL lists every NCCL that could be loaded, in the order the loader would
	// take them: the first is the one torch gets. One that is linked into torch
	// has the path of torch's own library.
	NCCL []NCCLLibrary `json:"nccl" fact:"key=path"`
	// Protobuf is about generated code that needs an older runtime.
	Protobuf *Protobuf `json:"protobuf"`
}

// Where python looks before its own library.
const (
	InScriptDir  = "script"
	InWorkDir    = "workdir"
	InPythonPath = "PYTHONPATH"
)

// Shadow is a file or a package that python imports in place of an installed module.
type Shadow struct {
	Path   string `json:"path"`   // what is imported
	Module string `json:"module"` // "random"
	In     string `json:"in"`     // why it comes first: script, workdir, PYTHONPATH
	Hides  string `json:"hides"`  // what would be imported otherwise
	// Copy is whether it is a package with most of what the hidden one holds.
	Copy bool `json:"copy,omitempty"`
}

// Torch is torch's own account of how it was built (torch/version.py).
type Torch struct {
	Version string `json:"version"` // "2.5.1+cu124"
	CUDA    string `json:"cuda"`    // "12.4", "" for a CPU build
	HIP     string `json:"hip,omitempty"`
	// Unloadable is what the loader says of torch's libraries where it does not load them:
	// "libstdc++.so.6: file too short"; "" where it does, and where it was not asked.
	Unloadable string `json:"unloadable"`
	// NCCLWheel is the version of the nvidia-nccl wheel torch asks for, ""
	// when it carries its own.
	NCCLWheel string `json:"nccl_wheel,omitempty"`
	// CUDALibrary is torch's library of what it does on GPUs, which NCCL is linked into or
	// by; "" where there is none.
	CUDALibrary string `json:"cuda_library" fact:"own"`
}

// NCCLLibrary is one libnccl.so.2 found, or RCCL's librccl.so.1 of a torch for ROCm, and the
// version read from its bytes.
type NCCLLibrary struct {
	Path    string `json:"path"`
	Version string `json:"version"` // "2.21.5", "" when the file does not say
	CUDA    string `json:"cuda"`    // "12.4"
	HIP     string `json:"hip"`     // of RCCL, "6.2"
	From    string `json:"from"`    // LD_PRELOAD, LD_LIBRARY_PATH, wheel, torch, ld.so.cache, default
	// Code is which GPUs it has code for: "sm_90" is machine code for compute capability 9.0,
	// "compute_90" PTX, which a driver translates for any from that on. nil is not told, as of
	// one that is linked into torch.
	Code []string `json:"code"`
}

// Protobuf is what decides whether generated code can load.
type Protobuf struct {
	Runtime string `json:"runtime"` // installed version
	// OldGenerated lists packages whose _pb2.py were made by protoc before
	// 3.19 and fail on a runtime of 4 or later with "Descriptors cannot be
	// created directly".
	OldGenerated []string `json:"old_generated"`
	// NewGenerated lists packages whose _pb2.py ask for a newer runtime than
	// Runtime, with what they ask for ("onnx needs 5.26.1").
	NewGenerated []string `json:"new_generated"`
	// Implementation is PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, "" when unset.
	Implementation string `json:"implementation"`
}

// Toolchain is what compiles DeepSpeed's ops on a node when the launch needs
// them: torch.utils.cpp_extension looks for the same things in the same places.
type Toolchain struct {
	CUDAHome string `json:"cuda_home"` // where torch would find the toolkit, "" for nowhere
	// CUDAFrom says by which rule: CUDA_HOME, CUDA_PATH, nvcc in PATH, /usr/local/cuda.
	CUDAFrom string `json:"cuda_from,omitempty"`
	NVCC     string `json:"nvcc"` // $CUDAHome/bin/nvcc when it is there, else ""
	CUDA     string `json:"cuda"` // the toolkit's version, "12.4"; "" when it does not say
	CXX      string `json:"cxx"`  // the compiler torch would run ($CXX, else c++), "" when not in PATH
	// CXXVersion is what it says to -dumpfullversion -dumpversion, "" when it does not.
	CXXVersion string `json:"cxx_version,omitempty"`
	Ninja      string `json:"ninja"`                     // in PATH, "" when not
	PythonH    bool   `json:"python_h"`                  // the interpreter's headers are installed
	LibAIO     bool   `json:"libaio"`                    // libaio.h and libaio.so, for async_io
	Extensions string `json:"extensions"`                // where torch keeps what it compiled: TORCH_EXTENSIONS_DIR, else ~/.cache/torch_extensions
	Lock       string `json:"lock,omitempty" fact:"own"` // a lock left behind there, which a build waits for without end
	// Builds are the directories there that the ops of the launch are compiled in, by op,
	// and Built the ops that lie there compiled.
	Builds []Place  `json:"builds,omitempty" fact:"key=role"`
	Built  []string `json:"built,omitempty" fact:"volatile"`
}
