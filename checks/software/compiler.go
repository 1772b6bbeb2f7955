// SPDX-License-Identifier: Apache-2.0

package software

import (
	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

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
