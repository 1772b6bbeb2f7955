package facts

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
}
