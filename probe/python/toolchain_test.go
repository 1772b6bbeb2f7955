// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// unset removes variables from the environment until the test ends.
func unset(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		t.Setenv(name, "") // Setenv restores the variable at the end
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// noToolchain sets up an environment in which no variable leads to a tool.
func noToolchain(t *testing.T) {
	t.Helper()
	unset(t, "CUDA_HOME", "CUDA_PATH", "CC", "CXX", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "CFLAGS", "LDFLAGS", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HOME", t.TempDir())
}

// TestCUDAHome checks that the order is torch's own. That includes paths that torch does not
// verify.
func TestCUDAHome(t *testing.T) {
	nvcc := probetest.Script(t, "nvcc", "")
	tests := []struct {
		name       string
		env        map[string]string
		usual      bool
		home, from string
	}{
		{"nowhere", nil, false, "", ""},
		{"the usual place", nil, true, "/usr/local/cuda", "/usr/local/cuda"},
		{"nvcc before it", map[string]string{"PATH": filepath.Dir(nvcc)}, true, filepath.Dir(filepath.Dir(nvcc)), "nvcc in PATH"},
		{"CUDA_PATH before that", map[string]string{"PATH": filepath.Dir(nvcc), "CUDA_PATH": "/gone"}, true, "/gone", "CUDA_PATH"},
		{"CUDA_HOME before all", map[string]string{"CUDA_HOME": "/opt/cuda", "CUDA_PATH": "/gone"}, true, "/opt/cuda", "CUDA_HOME"},
		{"an empty CUDA_HOME is none", map[string]string{"CUDA_HOME": ""}, true, "/usr/local/cuda", "/usr/local/cuda"},
		{"an empty CUDA_PATH is the end", map[string]string{"CUDA_PATH": ""}, true, "", "CUDA_PATH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noToolchain(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			o := machine.Options{Root: t.TempDir()}
			if tt.usual {
				probetest.Write(t, o, map[string]string{"/usr/local/cuda/x": ""})
			}
			if home, from := cudaHome(o); home != tt.home || from != tt.from {
				t.Errorf("%q by %q, want %q by %q", home, from, tt.home, tt.from)
			}
		})
	}
}

func TestCUDAVersion(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/new/version.json":    `{"cuda": {"name": "CUDA SDK", "version": "12.4.20240321"}}`,
		"/old/version.txt":     "CUDA Version 10.2.89\n",
		"/broken/version.json": `{"cuda": `,
		"/empty/version.json":  `{}`,
	})
	nvcc := "/conda/bin/nvcc"
	if err := os.MkdirAll(o.At("/conda/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	probetest.Program(t, o.At(nvcc), "#!/bin/sh\n[ $1 = -V ] && echo 'Cuda compilation tools, release 11.8, V11.8.89'")
	for _, tt := range []struct{ home, nvcc, want string }{
		{"/new", nvcc, "12.4"}, {"/old", nvcc, "10.2"}, {"/broken", nvcc, "11.8"}, {"/empty", nvcc, "11.8"}, {"/conda", nvcc, "11.8"},
		{"/conda", "", ""}, {"/conda", "/gone/nvcc", ""},
	} {
		if got := cudaVersion(t.Context(), o, tt.home, tt.nvcc); got != tt.want {
			t.Errorf("%s with %q: %q, want %q", tt.home, tt.nvcc, got, tt.want)
		}
	}
}

func TestCXXCompiler(t *testing.T) {
	noToolchain(t)
	bin := os.Getenv("PATH")
	for name, body := range map[string]string{"c++": `[ "$*" = "-dumpfullversion -dumpversion" ] && echo 12.2.0`, "clang++": "exit 1", "ccache": `[ "$1" = c++ ] && echo 9.4.0`} {
		probetest.Program(t, filepath.Join(bin, name), "#!/bin/sh\n"+body)
	}
	for _, tt := range []struct{ cxx, path, version string }{
		{"unset", bin + "/c++", "12.2.0"}, {"clang++", bin + "/clang++", ""}, {"ccache c++", bin + "/ccache", "9.4.0"}, {bin + "/c++", bin + "/c++", "12.2.0"}, {"gone", "", ""}, {"", "", ""},
	} {
		if t.Setenv("CXX", tt.cxx); tt.cxx == "unset" {
			os.Unsetenv("CXX")
		}
		if path, version := cxxCompiler(t.Context(), machine.Options{}); path != tt.path || version != tt.version {
			t.Errorf("CXX=%q: %q %q, want %q %q", tt.cxx, path, version, tt.path, tt.version)
		}
	}
}

func TestHasLibAIO(t *testing.T) {
	library := machine.DefaultLibraryDirs[1]
	for name, tt := range map[string]struct {
		files []string
		env   map[string]string
		want  bool
	}{
		"both":                  {[]string{"/usr/include/libaio.h", library + "/libaio.so"}, nil, true},
		"no header":             {[]string{library + "/libaio.so"}, nil, false},
		"no link for compilers": {[]string{"/usr/include/libaio.h", library + "/libaio.so.1"}, nil, false},
		"by conda":              {[]string{"/conda/include/libaio.h", "/conda/lib/libaio.so"}, nil, true},
		"by flags":              {[]string{"/a/libaio.h", "/b/libaio.so"}, map[string]string{"CFLAGS": "-O2 -I/a", "LDFLAGS": "-L/b"}, true},
		"by paths":              {[]string{"/a/libaio.h", "/b/libaio.so"}, map[string]string{"CPATH": "/x:/a", "LIBRARY_PATH": "/b"}, true},
		"nowhere":               {[]string{"/a/libaio.h", "/b/libaio.so"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			noToolchain(t)
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			o := machine.Options{Root: t.TempDir()}
			for _, file := range tt.files {
				probetest.Write(t, o, map[string]string{file: ""})
			}
			if got := hasLibAIO(o, "/conda"); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}

// TestAbandonedLock checks that a lock is reported only if torch treats the file's existence as a
// running build. The lock must belong to the launch's Python.
func TestAbandonedLock(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/old/torch/utils/cpp_extension.py":    "    baton = FileBaton(os.path.join(build_directory, 'lock'))\n",
		"/new/torch/utils/cpp_extension.py":    "    with FileLock(os.path.join(build_directory, 'lock')):\n",
		"/old/torch/version.py":                "__version__ = '2.4.1+cu121'\ncuda = '12.1'\nhip = None\n",
		"/new/torch/version.py":                "cuda = '12.1'\n",
		"/cpu/torch/utils/cpp_extension.py":    "baton = FileBaton(lock)",
		"/cpu/torch/version.py":                "cuda = None\n",
		"/hip/torch/utils/cpp_extension.py":    "baton = FileBaton(lock)",
		"/hip/torch/version.py":                "cuda = None\nhip = '6.2.41133'\n",
		"/cache/py39_rocm62/cpu_adam/lock":     "",
		"/cache/py310_cu118/cpu_adam/lock":     "",
		"/cache/py310_cu121/cpu_adam/lock":     "",
		"/cache/py311_cu121/async_io/build.so": "",
		"/cache/py312_cu121/fused_adam/lock":   "",
		"/cache/py311_cpu/async_io/lock":       "",
		"/ext/cpu_adam/lock":                   "",
		"/ext/cpu_adam/cpu_adam.so":            "",
	})
	o.Ops = []string{"cpu_adam", "fused_adam"}
	probetest.Link(t, o, "cache", "/link")
	held, err := os.Create(o.At("/cache/py312_cu121/fused_adam/lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, tt := range []struct{ name, own, version, torch, extensions, want string }{
		{"left behind", "", "py310", "/old/torch", "/cache", "/cache/py310_cu121/cpu_adam/lock"},
		{"of a torch for the processor", "", "py310", "/cpu/torch", "/cache", ""},
		{"of a torch for AMD", "", "py39", "/hip/torch", "/cache", "/cache/py39_rocm62/cpu_adam/lock"},
		{"of another op", "", "py311", "/cpu/torch", "/cache", ""},
		{"of another python", "", "py311", "/old/torch", "/cache", ""},
		{"being held", "", "py312", "/old/torch", "/cache", ""},
		{"being held, by a link", "", "py312", "/old/torch", "/link", ""},
		{"no matter to this torch", "", "py310", "/new/torch", "/cache", ""},
		{"no torch", "", "py310", "/gone", "/cache", ""},
		{"a directory of the user's own", "/ext", "py310", "/old/torch", "/ext", "/ext/cpu_adam/lock"},
	} {
		t.Setenv("TORCH_EXTENSIONS_DIR", tt.own)
		build := pythonBuild{version: tt.version, torch: o.At(tt.torch)}
		places, _ := builds(o, tt.extensions, build)
		if got := abandonedLock(o, places, build); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	places, _ := builds(o, "/cache", pythonBuild{})
	if got := abandonedLock(o, places, pythonBuild{}); got != "" {
		t.Errorf("of no python: %q", got)
	}
	t.Setenv("TORCH_EXTENSIONS_DIR", "/ext")
	want := []facts.Place{{Role: "cpu_adam", Path: "/ext/cpu_adam"}, {Role: "fused_adam", Path: "/ext/fused_adam"}}
	got, built := builds(o, "/ext", pythonBuild{torch: o.At("/new/torch")})
	if diff := cmp.Diff(want, got); diff != "" || len(built) != 1 || built[0] != "cpu_adam" {
		t.Errorf("compiled: %v, in (-want +got):\n%s", built, diff)
	}
}

// TestExportsHold checks that the launch's exports override the session's values.
func TestExportsHold(t *testing.T) {
	noToolchain(t)
	bin := t.TempDir()
	for _, name := range []string{"ninja", "c++", "g++"} {
		probetest.Program(t, filepath.Join(bin, name), "#!/bin/sh\necho 12.1.0")
	}
	t.Setenv("CUDA_HOME", "/gone")
	o := machine.Options{Root: t.TempDir(), WorkDir: "/job", Exports: map[string]string{"PATH": "/gone:" + bin, "CXX": "g++", "CUDA_HOME": "/opt/cuda", "TORCH_EXTENSIONS_DIR": "ext"}}
	got, err := CollectToolchain(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.CXX != bin+"/g++" || got.Ninja != bin+"/ninja" || got.CUDAHome != "/opt/cuda" || got.Extensions != "/job/ext" {
		t.Errorf("%+v", got)
	}
}

// TestAskBuild checks the answer of a real interpreter.
func TestAskBuild(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(python, "-c", `import sys, sysconfig; print(sysconfig.get_path("include", scheme="posix_prefix"), sys.prefix, "py%d%d" % sys.version_info[:2])`).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := askBuild(t.Context(), python)
	if words := strings.Join([]string{got.include, got.prefix, got.version}, " "); words != strings.TrimSpace(string(output)) {
		t.Errorf("%q, want %q", words, output)
	}
	for name, body := range map[string]string{"chatty": "echo hello; " + python + ` "$@"`, "broken": "exit 1", "silent": "echo preflight"} {
		answered := askBuild(t.Context(), probetest.Script(t, "python", body)).include != ""
		if answered != (name == "chatty") {
			t.Errorf("%s: answered %t", name, answered)
		}
	}
	if got := askBuild(t.Context(), "/gone/python"); got != (pythonBuild{}) {
		t.Errorf("of no python: %+v", got)
	}
}

func TestCollectToolchain(t *testing.T) {
	noToolchain(t)
	bin, include := os.Getenv("PATH"), t.TempDir()
	probetest.Write(t, machine.Options{Root: include}, map[string]string{"Python.h": ""})
	for name, body := range map[string]string{
		"c++": "echo 13.1.0", "ninja": "", "g++": "", "clang": "", "python3": "printf 'preflight " + include + "\\npreflight /conda\\npreflight py311\\npreflight\\n'",
	} {
		probetest.Program(t, filepath.Join(bin, name), "#!/bin/sh\n"+body)
	}
	o := probetest.Write(t, machine.Options{}, map[string]string{"/opt/cuda/version.txt": "CUDA Version 12.1.0", "/conda/include/libaio.h": "", "/conda/lib/libaio.so": ""})
	if err := os.MkdirAll(o.At("/opt/cuda/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	probetest.Program(t, o.At("/opt/cuda/bin/nvcc"), "#!/bin/sh\n")
	t.Setenv("CUDA_HOME", "/opt/cuda")
	got, err := CollectToolchain(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Toolchain{
		CUDAHome: "/opt/cuda", CUDAFrom: "CUDA_HOME", NVCC: "/opt/cuda/bin/nvcc", CUDA: "12.1",
		CXX: bin + "/c++", CXXVersion: "13.1.0", Ninja: bin + "/ninja", PythonH: true, Include: include, LibAIO: true,
		InductorCXX: bin + "/g++", TritonCC: bin + "/clang",
		Extensions: os.Getenv("HOME") + "/.cache/torch_extensions",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	noToolchain(t)
	got, err = CollectToolchain(t.Context(), machine.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&facts.Toolchain{Extensions: os.Getenv("HOME") + "/.cache/torch_extensions"}, got); diff != "" {
		t.Errorf("on a bare machine (-want +got):\n%s", diff)
	}
}
