// SPDX-License-Identifier: Apache-2.0

package launch

import "slices"

// Imported says which package always imports a module and fails without it. If an empty file with
// the module's name comes first in python's path, the ranks die.
//
// Source: each was tried with torch 2.15.0 and DeepSpeed 0.19.8 under python 3.11: the import of
// torch, a step of AdamW by DistributedDataParallel with a DataLoader, and the import of
// deepspeed.launcher.launch.
type Imported int

const (
	NotImported Imported = iota
	// ByDeepSpeed is for modules that DeepSpeed needs and torch alone does not.
	ByDeepSpeed
	ByTorch
)

// imported lists the modules of each package. It leaves out modules without which torch and
// DeepSpeed still start, such as calendar.
var imported = map[Imported][]string{
	ByTorch: {
		"ast", "asyncio", "base64", "bisect", "collections", "colorsys", "concurrent", "contextlib", "contextvars", "copy", "copyreg", "ctypes",
		"dataclasses", "datetime", "decimal", "dis", "email", "enum", "fnmatch", "fractions", "functools", "getpass", "glob", "graphlib", "heapq",
		"hmac", "http", "importlib", "inspect", "json", "keyword", "linecache", "logging", "mmap", "mpmath", "multiprocessing", "numbers", "numpy",
		"opcode", "operator", "pathlib", "pickle", "pkgutil", "platform", "pprint", "profile", "queue", "quopri", "random", "re", "reprlib", "secrets",
		"selectors", "shutil", "signal", "socket", "ssl", "string", "struct", "subprocess", "sympy", "sysconfig", "tempfile", "textwrap", "threading",
		"timeit", "token", "tokenize", "torch", "torchgen", "traceback", "triton", "types", "typing", "typing_extensions", "unittest", "urllib", "uuid",
		"warnings", "weakref",
	},
	ByDeepSpeed: {
		"annotated_types", "argparse", "deepspeed", "ipaddress", "packaging", "psutil", "pydantic", "pydantic_core", "tqdm", "typing_inspection",
		"zoneinfo",
	},
}

// ImportedBy returns which package imports a module of this name.
func ImportedBy(module string) Imported {
	for by, names := range imported {
		if slices.Contains(names, module) {
			return by
		}
	}
	return NotImported
}

// Requirement is a module that a package needs to start and that belongs to another package.
type Requirement struct {
	Of, Since, Until     string // the package, its first release with the requirement, and the first without it
	Module, Distribution string
	// Late says when the package needs the module if its import succeeds without the module. It is
	// "" if the import already fails.
	Late string
}

// Requirements lists the known requirements. It has no entry for DeepSpeed itself, which needs
// sympy through torch's optimizers.
//
// Source: each module was removed from torch 2.4.1 and 2.15.0, which work without filelock, jinja2,
// networkx, fsspec, numpy and setuptools, from the accelerate launch of 1.15.0, which works without
// huggingface_hub and psutil, and from pydantic 2.14.3. pydantic needs typing-inspection since
// 2.11. DeepSpeed 0.15.1, 0.15.2, 0.19.6 and 0.19.7 cannot be imported without sympy, 0.19.8 can.
var Requirements = []Requirement{
	{Of: "torch", Since: "2.4", Module: "typing_extensions", Distribution: "typing-extensions"},
	{Of: "torch", Since: "2.4", Module: "sympy", Distribution: "sympy", Late: "as an optimizer is made"},
	{Of: "torch", Since: "2.4", Module: "mpmath", Distribution: "mpmath", Late: "as an optimizer is made"},
	{Of: "deepspeed", Since: "0.15.1", Until: "0.19.8", Module: "sympy", Distribution: "sympy"},
	{Of: "deepspeed", Since: "0.15.1", Until: "0.19.8", Module: "mpmath", Distribution: "mpmath"},
	{Of: "pydantic", Since: "2", Module: "annotated_types", Distribution: "annotated-types"},
	{Of: "pydantic", Since: "2", Module: "pydantic_core", Distribution: "pydantic-core"},
	{Of: "pydantic", Since: "2.11", Module: "typing_inspection", Distribution: "typing-inspection"},
	{Of: "accelerate", Since: "1.15", Module: "numpy", Distribution: "numpy"},
	{Of: "accelerate", Since: "1.15", Module: "packaging", Distribution: "packaging"},
	{Of: "accelerate", Since: "1.15", Module: "safetensors", Distribution: "safetensors"},
	{Of: "accelerate", Since: "1.15", Module: "yaml", Distribution: "pyyaml"},
}

// Modules returns the known modules that the launch imports, sorted. The nodes check whether python
// finds each module and whether a local file has the same name. scriptImports lists the imports in
// the launching machine's copy of the script.
func Modules(scriptImports []string) []string {
	all := slices.Clone(scriptImports)
	for _, r := range Requirements {
		all = append(all, r.Module)
	}
	for _, names := range imported {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// harmless lists packages whose import writes nothing. deepspeed, matplotlib, transformers and wandb
// create directories.
var harmless = []string{"einops", "numpy", "packaging", "pandas", "safetensors", "scipy", "sympy", "torchvision", "tqdm", "yaml"}

// Imported returns the modules that the launch certainly imports and that can be imported without
// leaving anything behind. It returns none if there is no launch command.
func (p Prediction) Imported(scriptImports []string) (modules []string) {
	if p.Script == "" {
		return nil
	}
	if p.StartedBy().LaunchPy || p.Torchrun() || slices.Contains(scriptImports, "torch") {
		modules = append(modules, "torch")
	}
	for _, name := range harmless {
		if slices.Contains(scriptImports, name) {
			modules = append(modules, name)
		}
	}
	return modules
}
