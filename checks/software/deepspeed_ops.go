// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var DeepSpeedOps = checks.Check{
	ID:       "deepspeed-ops",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionToolchain},
	Run:      judgeOps,
}

func judgeOps(view checks.View) []checks.Finding {
	needed := view.Launch.Ops()
	compiler := runtimeCompiler(view)
	if len(needed) == 0 && compiler == "" {
		return checks.Skipped("the launch needs no compiled DeepSpeed op")
	}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		findings = append(findings, lacksCompiler(view, node, compiler)...)
	}
	told := slices.Clone(findings)
	if len(needed) == 0 {
		return findings
	}
	compiled := false
	for _, node := range view.Nodes {
		ops := compare.Without(needed, func(op string) bool { return node.Python != nil && node.Python.Ops[op] })
		if len(ops) == 0 {
			continue
		}
		compiled = true
		lacksAll := slices.ContainsFunc(told, func(f checks.Finding) bool { return f.Nodes[0] == node.Name && node.Toolchain.CXX == "" })
		tools := opTools{node.Toolchain, view, node, ops, lacksAll}
		found := slices.Concat(tools.compiler(), tools.toolkit(), tools.directory(), tools.lock())
		if slices.Equal(ops, []string{launch.CommOp}) && !callsDeepSpeed(view, node) {
			for i := range found { // a script that only uses torch needs none of the tools
				if found[i].Verdict != checks.Unknown {
					found[i].Verdict = checks.Warn
				}
			}
		}
		findings = append(findings, found...)
	}
	if !compiled && compiler == "" {
		return checks.Skipped("the installed deepspeed already contains every op that the launch needs: " + strings.Join(needed, ", "))
	}
	return findings
}

// callsDeepSpeed reports whether the script is known to use DeepSpeed. It is known if the launch
// has a DeepSpeed configuration, or if the script imports deepspeed.
func callsDeepSpeed(view checks.View, node *facts.Node) bool {
	script := ranks.ScriptAt(view.Launch, node)
	return view.Launch.Config != nil || script != nil && slices.Contains(script.Imports, "deepspeed")
}

// scriptCallsDeepSpeed reports whether callsDeepSpeed is true for at least one node.
func scriptCallsDeepSpeed(view checks.View) bool {
	return slices.ContainsFunc(ranks.Answering(view), func(n *facts.Node) bool { return callsDeepSpeed(view, n) })
}

// toolkit checks the CUDA toolkit. All GPU ops but a few are linked with it.
//
// Source: deepspeed/op_builder/, cpu_adam.py and similar builders until 0.19.8.
func (t opTools) toolkit() []checks.Finding {
	ops := compare.Without(t.ops, func(op string) bool {
		return op == "utils" || strings.HasPrefix(op, "cpu_") && !hostfile.Before(t.view.Launch.DeepSpeed, "0.19.8")
	})
	if len(ops) == 0 || t.view.Launch.Accelerator == "cpu" || t.node.Python != nil && t.node.Python.Torch != nil && t.node.Python.Torch.CUDA == "" {
		return nil // a torch for ROCm or the CPU needs no toolkit
	}
	if t.NVCC == "" {
		f := t.lacks("no CUDA toolkit found", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root., or "+
			"MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
			ranks.ExportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda").Remark("after the toolkit is installed there"),
			fix.Note("first install a CUDA toolkit of the version that torch was built with on {nodes}"))
		f.Want = "a CUDA toolkit to compile " + strings.Join(ops, ", ")
		if t.CUDAHome != "" {
			f.Got = fmt.Sprintf("%s (from %s) has no bin/nvcc", t.CUDAHome, t.CUDAFrom)
		}
		return []checks.Finding{f}
	}
	if t.node.Python == nil || t.node.Python.Torch == nil || t.CUDA == "" {
		return nil
	}
	return t.mismatch(ops, hostfile.Release(t.node.Python.Torch.CUDA, 2))
}

// mismatch compares the release of the toolkit with the CUDA release of torch. Releases with the
// same major version are compatible. DeepSpeed itself refused a mismatch until 0.12.2, and has
// continued since.
//
// Source: deepspeed/op_builder/builder.py, assert_no_cuda_mismatch and jit_load, 0.7.7 to 0.19.8.
func (t opTools) mismatch(ops []string, torch string) []checks.Finding {
	skipped := ranks.Env(t.view, t.node).Get("DS_SKIP_CUDA_CHECK").Value == "1"
	if hostfile.Release(t.CUDA, 1) == hostfile.Release(torch, 1) || skipped {
		return nil
	}
	f := t.lacks(fmt.Sprintf("the CUDA toolkit is %s, torch was built with CUDA %s", t.CUDA, torch),
		fmt.Sprintf("Installed CUDA version %s does not match the version torch was compiled with %s, unable to compile cuda/cpp extensions without a matching cuda version.", t.CUDA, torch),
		ranks.ExportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda-"+torch))
	f.Got = fmt.Sprintf("CUDA %s in %s (from %s), torch for CUDA %s", t.CUDA, t.CUDAHome, t.CUDAFrom, torch)
	f.Want = fmt.Sprintf("a CUDA %s toolkit to compile %s", hostfile.Release(torch, 1), strings.Join(ops, ", "))
	if !hostfile.Before(t.view.Launch.DeepSpeed, "0.12.3") {
		f.Verdict = checks.Warn
		f.WouldSee = fmt.Sprintf("RuntimeError: Error building extension '%s', or ImportError: undefined symbol when it is loaded", ops[0])
	}
	return []checks.Finding{f}
}

// buildSize is the number of bytes that the smallest op needs: the objects and the library of
// deepspeed_shm_comm with torch 2.15. With less free space, no op can be compiled. disk-space warns
// if little space is left.
const buildSize = 1 << 20

// buildFiles is the smallest number of files that a build creates: a lock, rules, a log, objects
// and a library.
const buildFiles = 8

// directory checks the directories in which ops are compiled and from which they are loaded.
//
// Source: torch/utils/cpp_extension.py, _get_build_directory and _jit_compile, 2.4.1 and 2.15.0;
// each was tried with deepspeed_shm_comm of DeepSpeed 0.19.8.
func (t opTools) directory() (findings []checks.Finding) {
	for i := range t.Builds {
		if !slices.Contains(t.ops, t.Builds[i].Role) {
			continue
		}
		f, unusable := t.judgeBuild(&t.Builds[i])
		if !unusable {
			continue
		}
		reported := slices.ContainsFunc(findings, func(g checks.Finding) bool {
			return g.Summary == f.Summary && g.Verdict == f.Verdict && g.Verdict != checks.Unknown
		})
		if f.Want != "" {
			f.Want = "a directory to compile and load " + strings.Join(t.ops, ", ")
		}
		if !reported { // one finding is enough, because the directories of two ops are next to each other
			findings = append(findings, f)
		}
	}
	return findings
}

func (t opTools) judgeBuild(place *facts.Place) (f checks.Finding, unusable bool) {
	hasInodes := place.FreeInodes >= buildFiles || !slices.Contains(ranks.CountInodes, place.FSType)
	isFree := slices.Contains(t.Built, place.Role) || place.Free >= buildSize && hasInodes // the lock of a finished build needs no space
	if place.Problem == "" && place.InTheWay == "" && !place.ReadOnly && place.Writable && !place.NoExec && isFree {
		return f, false
	}
	elsewhere := ranks.ExportLine(t.view.Launch, "TORCH_EXTENSIONS_DIR", "/var/tmp/torch_extensions").Remark("or another directory on the nodes' local disks")
	mount := fmt.Sprintf("%s, %s on %s", place.Path, place.FSType, place.Source)
	switch {
	case place.Problem != "":
		return checks.UnknownFor(t.node, fmt.Sprintf("toolchain: %s: %s", place.Path, place.Problem)), true
	case place.InTheWay != "":
		f = t.lacks("torch cannot create its build directory", "NotADirectoryError: [Errno 20] Not a directory, or FileNotFoundError, for "+place.Path,
			fix.On("ls -ld %s", fix.Path(place.InTheWay)).As(fix.Look), elsewhere)
		f.Got = fmt.Sprintf("%s is not a directory, so %s cannot be created", place.InTheWay, place.Path)
	case place.ReadOnly:
		f = t.lacks("torch's build directory is on a read-only file system", fmt.Sprintf("OSError: [Errno 30] Read-only file system: '%s/lock'", place.Path),
			elsewhere, fix.On("findmnt -T %s", fix.Path(place.Path)).As(fix.Look))
		f.Got = mount
	case !place.Writable:
		f = t.lacks("torch's build directory is not writable", fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s/lock'", place.Path),
			fix.Alternatives(elsewhere, fix.On("sudo chown -R $(id -u) %s   # if another user, such as root, compiled there by mistake", fix.Path(t.Extensions)).Inside())...)
		f.Got = mount
	case place.NoExec:
		f = t.lacks("torch's build directory is mounted noexec: compiled ops cannot be loaded",
			fmt.Sprintf("ImportError: %s/%s.so: failed to map segment from shared object", place.Path, place.Role), elsewhere, fix.On("findmnt -T %s", fix.Path(place.Path)).As(fix.Look))
		f.Got = mount + ", noexec"
	case place.Free < buildSize:
		f = t.lacks("no space left in torch's build directory", fmt.Sprintf("RuntimeError: Error building extension '%s', below No space left on device", place.Role),
			fix.On("df -h %s", fix.Path(place.Path)).As(fix.Look), elsewhere)
		f.Got = fmt.Sprintf("%s free at %s", humanize.IBytes(uint64(place.Free)), mount)
	default:
		f = t.lacks("no inodes left in torch's build directory", fmt.Sprintf("OSError: [Errno 28] No space left on device: '%s'", place.Path),
			fix.On("df -i %s", fix.Path(place.Path)).As(fix.Look), elsewhere)
		f.Got = fmt.Sprintf("%d free inodes at %s", place.FreeInodes, mount)
	}
	return f, true
}

// lock checks for a lock that an interrupted build left behind.
func (t opTools) lock() []checks.Finding {
	if op := path.Base(path.Dir(t.Lock)); t.Lock == "" || op == launch.CommOp && !slices.Contains(t.ops, op) {
		return nil // the launch needs no such lock; the probe reads it in case the launch uses CPUs
	}
	f := t.lacks("an interrupted build left its lock: the next build waits forever",
		fmt.Sprintf("a hang after: Using %s as PyTorch extensions root...", t.Extensions),
		fix.On("rm %s   # unless a build is running there now", fix.Name(t.Lock)))
	f.Got, f.Want = t.Lock, ""
	if fileSystem := ranks.RemoteMount(t.node, "torch-extensions"); fileSystem != "" { // the probe sees only the processes of its own machine
		f.Verdict = checks.Warn
		f.Summary = "a build lock on a shared file system is left over, or a build is running"
		f.Got += ", on " + fileSystem
		f.Remedy = []fix.Command{
			fix.On("pgrep -af ninja   # also on every other machine that mounts this directory: is a build running?").As(fix.Look),
			fix.On("rm %s   # only if no build is running: two builds in one directory damage each other", fix.Name(t.Lock)).As(fix.Or),
		}
	}
	return []checks.Finding{f}
}

// opTools holds the tools that a node has to compile ops.
type opTools struct {
	*facts.Toolchain
	view checks.View
	node *facts.Node
	ops  []string // the ops that must be compiled on the node
	told bool     // another finding says that there is no compiler
}

func (t opTools) lacks(summary, wouldSee string, commands ...fix.Command) checks.Finding {
	return checks.Finding{
		Nodes:    []string{t.node.Name},
		Summary:  summary,
		Want:     "the tools to compile " + strings.Join(t.ops, ", "),
		WouldSee: wouldSee,
		Remedy:   commands,
	}
}

// compiler checks the tools that every op needs.
func (t opTools) compiler() (findings []checks.Finding) {
	if t.CXX == "" && !t.told {
		failed := fmt.Sprintf("RuntimeError: Error building extension '%s'", t.ops[0])
		findings = append(findings, t.unlessBuilt(t.lacks("no C++ compiler found", failed, fix.Install(fix.On, remedy.SystemOf(t.node), "build-essential", "gcc-c++")...)))
	}
	if t.Ninja == "" {
		f := t.lacks("ninja is not in the PATH of a non-login session",
			fmt.Sprintf("RuntimeError: Unable to JIT load the %s op due to ninja not being installed.", t.ops[0]), fix.Install(fix.On, remedy.SystemOf(t.node), "ninja-build", "ninja-build")...)
		if dir := t.ninjaDir(); dir != "" {
			f.Got = "ninja is in " + dir + ", which is not in PATH"
			f.Remedy = []fix.Command{ranks.ExportLine(t.view.Launch, "PATH", dir+":/usr/local/bin:/usr/bin:/bin")}
		}
		findings = append(findings, f)
	}
	if findings = append(findings, headersUnknown(t.node)...); !t.PythonH && t.Include != "" && (t.node.Python == nil || t.node.Python.Problem == "") {
		findings = append(findings, t.unlessBuilt(t.lacks("Python's headers are not installed", "fatal error: Python.h: No such file or directory", fix.Install(fix.On, remedy.SystemOf(t.node), "python3-dev", "python3-devel")...)))
	}
	if slices.Contains(t.ops, "async_io") && !t.LibAIO {
		findings = append(findings, t.lacks("libaio or its headers are not installed; async_io needs both",
			"[WARNING] async_io requires the dev libaio .so object and headers but these were not found., then "+
				"RuntimeError: Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue.",
			fix.Install(fix.On, remedy.SystemOf(t.node), "libaio-dev", "libaio-devel")...))
	}
	return findings
}

// unlessBuilt turns a finding into a warning if all ops are already compiled. ninja has nothing to
// do in that case, as long as torch, DeepSpeed and the compiler flags stay the same.
func (t opTools) unlessBuilt(f checks.Finding) checks.Finding {
	if !slices.ContainsFunc(t.ops, func(op string) bool { return !slices.Contains(t.Built, op) }) {
		f.Verdict = checks.Warn
		f.Got = "all ops are compiled in " + t.Extensions + "; that works until torch or DeepSpeed changes"
	}
	return f
}

// ninjaDir returns the directory in which pip installed ninja, which is next to the interpreter. It
// returns "" if pip did not install ninja.
func (t opTools) ninjaDir() string {
	if t.node.Python == nil || t.node.Python.Packages["ninja"] == "" || !text.IsPlain(t.node.Python.Path) {
		return ""
	}
	return path.Dir(t.node.Python.Path)
}

// runtimeCompiler returns whether the ranks compile code with torch.compile or Triton: see
// [facts.File].
func runtimeCompiler(view checks.View) string {
	if view.Head == nil {
		return ""
	}
	return view.Launch.Compiles(ranks.ScriptAt(view.Launch, view.Head))
}

// lacksCompiler returns findings for a node that lacks what torch.compile and Triton need. On CPUs
// Inductor runs a C++ compiler. On GPUs Triton compiles a piece of C that starts the kernels. Both
// include Python.h. A script may be written to go on without.
//
// Source: torch/_inductor/cpp_builder.py, 2.15.0, which was tried without the compiler and without
// the headers; triton/runtime/build.py and backends/nvidia/driver.py, 3.9.0.
func lacksCompiler(view checks.View, node *facts.Node, compiles string) (findings []checks.Finding) {
	env := ranks.Env(view, node)
	if compiles == "" || env.Get("TORCHDYNAMO_DISABLE").Value == "1" || env.Get("TORCH_COMPILE_DISABLE").Value == "1" {
		return nil
	}
	tools := node.Toolchain
	add := func(summary, wouldSee string, commands ...fix.Command) {
		f := checks.Finding{Nodes: []string{node.Name}, Summary: summary, Want: "the tools that torch.compile or Triton runs", WouldSee: wouldSee, Remedy: commands}
		if compiles != facts.CompilesAlways {
			f.Verdict = checks.Warn
			f.WouldSee += ", if the script gets to the code that compiles"
		}
		findings = append(findings, f)
	}
	gpu := ranks.UsesNCCL(view)
	switch {
	case gpu && tools.TritonCC == "":
		add("no C compiler found for Triton", "RuntimeError: Failed to find C compiler. Please specify via CC environment variable",
			fix.Install(fix.On, remedy.SystemOf(node), "build-essential", "gcc")...)
	case !gpu && tools.InductorCXX == "":
		add("no C++ compiler found for torch.compile", "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found",
			fix.Install(fix.On, remedy.SystemOf(node), "build-essential", "gcc-c++")...)
	}
	if place := inductorCache(view, node); place != nil && place.NoExec {
		add("torch.compile cannot load its code from "+place.Path+", mounted noexec",
			"torch._inductor.exc.InductorError: OSError: "+place.Path+"/….so: failed to map segment from shared object",
			fix.On("findmnt -T %s", fix.Path(place.Path)).As(fix.Look), ranks.ExportLine(view.Launch, "TORCHINDUCTOR_CACHE_DIR", "/var/tmp/torchinductor"))
		last := &findings[len(findings)-1]
		last.Got, last.Want = place.FSType+" on "+place.Source+", noexec", "a file system without noexec, or another directory in TORCHINDUCTOR_CACHE_DIR"
	}
	if len(view.Launch.Ops()) > 0 {
		return findings // the check of these ops tells about the headers
	}
	findings = append(findings, headersUnknown(node)...)
	if !tools.PythonH && tools.Include != "" {
		add("Python's headers are not installed", "fatal error: Python.h: No such file or directory",
			fix.Install(fix.On, remedy.SystemOf(node), "python3-dev", "python3-devel")...)
	}
	return findings
}

// inductorCache returns the place that contains Inductor's directory, or nil if it is unknown. By
// default that is the temporary directory.
//
// Source: torch/_inductor/runtime/cache_dir_utils.py, 2.15.0.
func inductorCache(view checks.View, node *facts.Node) (cache *facts.Place) {
	if node.Disk == nil {
		return nil
	}
	for i := range node.Disk.Places {
		place := &node.Disk.Places[i]
		if place.Role == "inductor-cache" || place.Role == "tmp" && cache == nil {
			cache = place
		}
	}
	if cache == nil || ranks.Moved(view, node, cache) || cache.Role == "tmp" && ranks.Env(view, node).Get("TORCHINDUCTOR_CACHE_DIR").Value != "" {
		return nil
	}
	return cache
}

// headersUnknown returns a finding for a node whose interpreter did not say where its headers must
// be. If it does not run at all, python-same reports that.
func headersUnknown(node *facts.Node) []checks.Finding {
	python := node.Python
	if node.Toolchain.PythonH || node.Toolchain.Include != "" || python == nil || !python.Found || python.Problem != "" {
		return nil
	}
	return []checks.Finding{checks.UnknownFor(node, "toolchain: the interpreter did not say where its headers are")}
}
