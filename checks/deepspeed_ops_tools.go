package checks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// opTools is what a node has to compile ops with.
type opTools struct {
	*facts.Toolchain
	view View
	node *facts.Node
	ops  []string // that will be compiled there
}

func newOpTools(view View, node *facts.Node, ops []string) opTools {
	return opTools{node.Toolchain, view, node, ops}
}

func (t opTools) lacks(summary, wouldSee string, fix ...string) Finding {
	return Finding{
		Nodes:    []string{t.node.Name},
		Summary:  summary,
		Want:     "what compiles " + strings.Join(t.ops, ", "),
		WouldSee: wouldSee,
		Fix:      fix,
	}
}

// compiler is what every op takes.
func (t opTools) compiler() (findings []Finding) {
	failed := fmt.Sprintf("RuntimeError: Error building extension '%s'", t.ops[0])
	if t.CXX == "" {
		findings = append(findings, t.lacks("there is no C++ compiler", failed, t.install("build-essential", "gcc-c++")...))
	}
	if t.Ninja == "" && !t.ninjaByExport() {
		f := t.lacks("ninja is not in PATH of a session without login",
			fmt.Sprintf("RuntimeError: Unable to JIT load the %s op due to ninja not being installed.", t.ops[0]), t.install("ninja-build", "ninja-build")...)
		if dir := t.ninjaDir(); dir != "" {
			f.Got = "it is installed for the interpreter, beside which nobody looks"
			f.Fix = []string{exportLine(t.view.Launch, "PATH", dir+":/usr/local/bin:/usr/bin:/bin")}
		}
		findings = append(findings, f)
	}
	if !t.PythonH {
		findings = append(findings, t.lacks("Python's headers are not installed", "fatal error: Python.h: No such file or directory", t.install("python3-dev", "python3-devel")...))
	}
	if slices.Contains(t.ops, "async_io") && !t.LibAIO {
		findings = append(findings, t.lacks("libaio, which NVMe is read and written with, is not installed with its headers",
			"[WARNING] async_io requires the dev libaio .so object and headers but these were not found., then "+
				"RuntimeError: Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue.",
			t.install("libaio-dev", "libaio-devel")...))
	}
	return findings
}

// ninjaDir is where pip put ninja: beside the interpreter.
func (t opTools) ninjaDir() string {
	if t.node.Python == nil || t.node.Python.Packages["ninja"] == "" || !isPlain(t.node.Python.Path) {
		return ""
	}
	return path.Dir(t.node.Python.Path)
}

// ninjaByExport is whether the launch hands the ranks a PATH that leads to it.
func (t opTools) ninjaByExport() bool {
	export, isExported := exported(t.view, "PATH")
	return isExported && t.ninjaDir() != "" && slices.Contains(strings.Split(export.Value, ":"), t.ninjaDir())
}

// toolkit is what ops of the GPU take besides.
func (t opTools) toolkit() []Finding {
	ops := needsCUDA(t.view, t.ops)
	if len(ops) == 0 || t.node.Python != nil && t.node.Python.Torch != nil && t.node.Python.Torch.CUDA == "" {
		return nil // a torch for ROCm or the CPU is another matter
	}
	if t.NVCC == "" {
		f := t.lacks("there is no CUDA toolkit", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root., or "+
			"MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
			exportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda")+"   # once a toolkit is installed there")
		f.Want = "what compiles " + strings.Join(ops, ", ")
		if t.CUDAHome != "" {
			f.Got = fmt.Sprintf("%s (by %s) has no bin/nvcc", t.CUDAHome, t.CUDAFrom)
		}
		return []Finding{f}
	}
	if t.node.Python == nil || t.node.Python.Torch == nil || t.CUDA == "" {
		return nil
	}
	return t.mismatch(ops, release(t.node.Python.Torch.CUDA, 2))
}

// mismatch compares the toolkit with torch. Releases of one major version go
// together; DeepSpeed itself looked up to 0.12.2 and has gone on since.
//
// Source: deepspeed/op_builder/builder.py, assert_no_cuda_mismatch and jit_load,
// 0.7.7 to 0.19.8.
func (t opTools) mismatch(ops []string, torch string) []Finding {
	skipped := rankEnv(t.view, t.node)["DS_SKIP_CUDA_CHECK"].Value == "1"
	if release(t.CUDA, 1) == release(torch, 1) || skipped {
		return nil
	}
	f := t.lacks("the CUDA toolkit is of another version than torch was built with",
		fmt.Sprintf("Installed CUDA version %s does not match the version torch was compiled with %s, unable to compile cuda/cpp extensions without a matching cuda version.", t.CUDA, torch),
		exportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda-"+torch))
	f.Got = fmt.Sprintf("CUDA %s in %s (by %s), torch for CUDA %s", t.CUDA, t.CUDAHome, t.CUDAFrom, torch)
	f.Want = fmt.Sprintf("a toolkit of CUDA %s, for %s", release(torch, 1), strings.Join(ops, ", "))
	if !launch.Before(t.view.Launch.DeepSpeed, "0.12.3") {
		f.Verdict = Warn
		f.WouldSee = fmt.Sprintf("RuntimeError: Error building extension '%s', or ImportError: undefined symbol when it is loaded", ops[0])
	}
	return []Finding{f}
}

// lock is one that an interrupted build left behind.
func (t opTools) lock() []Finding {
	if t.Lock == "" {
		return nil
	}
	f := t.lacks("a build left its lock behind, and the next one waits for it without end",
		fmt.Sprintf("a hang after: Using %s as PyTorch extensions root...", t.Extensions),
		onNodes("rm %s", t.Lock)+"   # unless something is being built there now")
	f.Got, f.Want = t.Lock, ""
	return []Finding{f}
}

// install installs a package there, by the distribution's own tool.
func (t opTools) install(apt, dnf string) []string {
	there := t.view
	there.Head = t.node
	var fix []string
	for _, command := range installFix(there, apt, dnf) {
		fix = append(fix, "{ssh} "+command)
	}
	return fix
}
