// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// CollectToolchain searches for the programs and files that compile DeepSpeed's ops. It uses the
// places and the order of torch.utils.cpp_extension, which DeepSpeed's op_builder uses (torch 2.4.1
// and 2.15.0; differences are noted).
func CollectToolchain(ctx context.Context, o machine.Options) (*facts.Toolchain, error) {
	tools := &facts.Toolchain{}
	tools.CUDAHome, tools.CUDAFrom = cudaHome(o)
	if tools.CUDAHome != "" {
		if nvcc, err := exec.LookPath(filepath.Join(o.At(tools.CUDAHome), "bin", "nvcc")); err == nil {
			tools.NVCC = o.Without(nvcc)
		}
		tools.CUDA = cudaVersion(ctx, o, tools.CUDAHome, tools.NVCC)
	}
	tools.CXX, tools.CXXVersion = cxxCompiler(ctx, o)
	tools.InductorCXX, tools.TritonCC = firstOf(o, "CXX", "g++"), firstOf(o, "CC", "gcc", "clang")
	if path, err := o.LookPath("ninja"); err == nil {
		tools.Ninja = path
	}
	build := askBuild(ctx, o.Interpreter)
	tools.Include = build.include
	tools.PythonH = build.include != "" && machine.Exists(filepath.Join(build.include, "Python.h"))
	tools.LibAIO = hasLibAIO(o, build.prefix)
	tools.Extensions = machine.TorchExtensions(o.Getenv, o.WorkDir, machine.Session(o).Home)
	tools.Builds, tools.Built = builds(o, tools.Extensions, build)
	if err := machine.LookAtPlaces(ctx, o, tools.Builds); err != nil {
		return nil, err
	}
	tools.Lock = abandonedLock(o, tools.Builds, build)
	return tools, ctx.Err()
}

// builds returns the directories in which torch compiles ops, and the ops that are already compiled
// in them (_get_build_directory and _jit_compile).
func builds(o machine.Options, extensions string, build pythonBuild) (places []facts.Place, built []string) {
	if build.torch == "" {
		return nil, nil // torch compiles the ops in this case
	}
	if o.Getenv("TORCH_EXTENSIONS_DIR") == "" {
		extensions = filepath.Join(extensions, build.folder())
		if found, _ := filepath.Glob(o.At(extensions)); len(found) > 0 { // the pattern is valid
			extensions = o.Without(found[0])
		}
	}
	for _, op := range o.Ops {
		dir := filepath.Join(extensions, op)
		places = append(places, facts.Place{Role: op, Path: dir})
		if machine.Exists(o.At(filepath.Join(dir, op+".so"))) {
			built = append(built, op)
		}
	}
	return places, built
}

// cudaHome returns the directory where torch expects the toolkit, and the rule that leads torch
// there (_find_cuda_home). torch does not verify a path from the environment, and an empty
// CUDA_PATH ends the search.
func cudaHome(o machine.Options) (home, from string) {
	if home := o.Getenv("CUDA_HOME"); home != "" {
		return home, "CUDA_HOME"
	}
	if home, set := o.LookupEnv("CUDA_PATH"); set {
		return home, "CUDA_PATH"
	}
	if nvcc, err := o.LookPath("nvcc"); err == nil {
		return filepath.Dir(filepath.Dir(nvcc)), "nvcc in PATH"
	}
	const usual = "/usr/local/cuda"
	if _, err := os.Stat(o.At(usual)); err == nil {
		return usual, usual
	}
	return "", ""
}

// cudaVersion returns the toolkit's version from the file that comes with the toolkit. If a
// distribution or conda packaged the toolkit, it returns the version that nvcc reports.
func cudaVersion(ctx context.Context, o machine.Options, home, nvcc string) string {
	if text, err := os.ReadFile(o.At(filepath.Join(home, "version.json"))); err == nil {
		var file struct{ CUDA struct{ Version string } }
		if json.Unmarshal(text, &file) == nil && file.CUDA.Version != "" {
			return majorMinor(file.CUDA.Version)
		}
	}
	if version, found := strings.CutPrefix(machine.Line(o.At(filepath.Join(home, "version.txt"))), "CUDA Version "); found {
		return majorMinor(version)
	}
	if nvcc == "" {
		return ""
	}
	output, _, _ := hostsys.Child{Path: o.At(nvcc), Args: []string{"-V"}, Limit: machine.VersionLimit}.Run(ctx)
	return parseNVCC(output)
}

// nvccRelease matches the output of nvcc that DeepSpeed reads (op_builder/builder.py,
// installed_cuda_version): "Cuda compilation tools, release 12.4, V12.4.131".
var nvccRelease = lazyregexp.New(`release (\d+\.\d+)`)

func parseNVCC(output string) string {
	if match := nvccRelease.FindStringSubmatch(output); match != nil {
		return match[1]
	}
	return ""
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// cxxCompiler returns the compiler that torch would run (get_cxx_compiler), and the version that
// torch checks (get_compiler_abi_compatibility_and_version).
func cxxCompiler(ctx context.Context, o machine.Options) (path, version string) {
	name, set := o.LookupEnv("CXX")
	if !set {
		name = "c++"
	}
	words := strings.Fields(name) // the name may be "ccache g++", because ninja runs it through a shell
	if len(words) == 0 {
		return "", ""
	}
	path, err := o.LookPath(words[0])
	if err != nil {
		return "", ""
	}
	words = append(words, "-dumpfullversion", "-dumpversion")
	output, _, err := hostsys.Child{Path: path, Args: words[1:], Limit: machine.VersionLimit}.Run(ctx)
	if err != nil {
		return path, ""
	}
	return path, machine.FirstWord(output)
}

// firstOf returns the program that a variable names, or else the first of some programs that is in
// PATH. It returns "" if there is none.
//
// Source: torch/_inductor/cpp_builder.py, get_cpp_compiler, 2.15.0; triton/runtime/build.py, _build,
// 3.0.0 and 3.9.0. Both take the variable's value as it is.
func firstOf(o machine.Options, variable string, names ...string) string {
	if value, set := o.LookupEnv(variable); set {
		names = append([]string{}, strings.Fields(value)[:min(1, len(strings.Fields(value)))]...)
	}
	for _, name := range names {
		if path, err := o.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// pythonBuild holds what an interpreter uses to compile extensions.
type pythonBuild struct {
	include string // directory of Python.h; "" if the interpreter named none
	prefix  string // directory below which conda installs libraries
	version string // such as "py311"
	torch   string // directory of the torch package, "" if there is none
}

// askBuildOf needs site-packages in order to find torch, but imports nothing from there.
const askBuildOf = `import importlib.util, os, sys, sysconfig
torch = importlib.util.find_spec("torch")
print("\npreflight", sysconfig.get_path("include", scheme="posix_prefix"))
print("preflight", sys.prefix)
print("preflight", "py%d%d" % sys.version_info[:2])
print("preflight", os.path.dirname(torch.origin) if torch and torch.origin else "")
`

// askBuild asks the launch's interpreter, because only the interpreter knows where its headers are.
// A virtual environment uses the headers of its base Python.
func askBuild(ctx context.Context, interpreter string) pythonBuild {
	var python facts.Python
	if !findInterpreter(interpreter, &python) {
		return pythonBuild{}
	}
	output, _, _ := hostsys.Child{Path: python.Path, Args: []string{"-B", "-c", askBuildOf}, Limit: machine.VersionLimit}.Run(ctx)
	var answers []string
	for row := range strings.Lines(output) {
		if answer, found := strings.CutPrefix(strings.TrimSpace(row), "preflight"); found {
			answers = append(answers, strings.TrimSpace(answer))
		}
	}
	if len(answers) != 4 {
		return pythonBuild{}
	}
	return pythonBuild{answers[0], answers[1], answers[2], answers[3]}
}

// hasLibAIO reports whether the compiler would find libaio. DeepSpeed's async_io tests that with a
// small program (op_builder/async_io.py, has_function).
func hasLibAIO(o machine.Options, prefix string) bool {
	places := func(variables []string, flag string, usual ...string) []string {
		var dirs []string
		for _, variable := range variables {
			dirs = append(dirs, filepath.SplitList(os.Getenv(variable))...)
		}
		for _, word := range strings.Fields(os.Getenv("CFLAGS") + " " + os.Getenv("LDFLAGS")) {
			if dir, found := strings.CutPrefix(word, flag); found {
				dirs = append(dirs, dir)
			}
		}
		return append(dirs, usual...)
	}
	headers := places([]string{"CPATH", "C_INCLUDE_PATH"}, "-I", "/usr/include", "/usr/local/include", prefix+"/include")
	libraries := places([]string{"LIBRARY_PATH"}, "-L", append(slices.Clone(machine.DefaultLibraryDirs), "/usr/local/lib", prefix+"/lib")...)
	holds := func(dirs []string, name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return machine.Exists(o.At(filepath.Join(dir, name))) })
	}
	return holds(headers, "libaio.h") && holds(libraries, "libaio.so")
}

// abandonedLock returns a lock for which a build would wait forever. Older torch releases treat the
// existence of the file as a running build (torch/utils/file_baton.py), and a killed build leaves
// the file behind. Later releases lock the file itself, so its existence means nothing.
func abandonedLock(o machine.Options, builds []facts.Place, build pythonBuild) string {
	text, err := os.ReadFile(filepath.Join(build.torch, "utils", "cpp_extension.py"))
	if build.torch == "" || err != nil || !strings.Contains(string(text), "FileBaton(") {
		return ""
	}
	for _, place := range builds {
		if lock := filepath.Join(o.At(place.Path), "lock"); machine.Exists(lock) && !heldOpen(lock) {
			return o.Without(lock)
		}
	}
	return ""
}

// folder returns the subdirectory of torch's extensions for this Python and this build of torch
// (_get_build_directory).
func (b pythonBuild) folder() string {
	text, _ := os.ReadFile(filepath.Join(b.torch, "version.py")) // a torch without this file is a CPU build
	torch := parseTorchVersion(string(text))
	switch {
	case torch.HIP != "":
		return b.version + "_*" // older torch releases put the CPU's name at the end, later releases ROCm's name
	case torch.CUDA != "":
		return b.version + "_cu" + strings.ReplaceAll(torch.CUDA, ".", "")
	}
	return b.version + "_cpu"
}

// heldOpen reports whether a process that this user may read has a file open. During a build, torch
// has its lock file open.
func heldOpen(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the kernel uses the real path
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && target == path
	})
}
