// SPDX-License-Identifier: Apache-2.0

package launch

import "slices"

// Imported is who imports a module, whatever the script is, and does not come up without
// it: with an empty file of its name in python's way the ranks die.
//
// Source: each was tried with torch 2.15.0 and DeepSpeed 0.19.8 under python 3.11: the
// import of torch, a step of AdamW by DistributedDataParallel with a DataLoader, and the
// import of deepspeed.launcher.launch.
type Imported int

const (
	NotImported Imported = iota
	// ByDeepSpeed is for what torch alone comes through without.
	ByDeepSpeed
	ByTorch
)

// imported has no module that torch and DeepSpeed import and come up without, as calendar.
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

// ImportedBy is who imports a module of that name.
func ImportedBy(module string) Imported {
	for by, names := range imported {
		if slices.Contains(names, module) {
			return by
		}
	}
	return NotImported
}

// Requirement is a module that a package does not come up without, and that is of another
// package.
type Requirement struct {
	Of, Since, Until     string // the package, from which release on, and before which
	Module, Distribution string
	// Late is when an import that succeeds is made up for, "" where it does not.
	Late string
}

// Requirements has none that DeepSpeed itself asks for: it brings sympy by torch's optimizers.
//
// Source: each was taken away from torch 2.4.1 and 2.15.0, which do without filelock,
// jinja2, networkx, fsspec, numpy and setuptools, from the accelerate launch of 1.15.0,
// which does without huggingface_hub and psutil, and from pydantic 2.14.3. pydantic asks
// for typing-inspection from 2.11 on. DeepSpeed 0.15.1, 0.15.2, 0.19.6 and 0.19.7 are not
// imported without sympy, and 0.19.8 is.
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

// Modules are those that the launch imports, as far as is known, sorted: the nodes look
// whether they are found, and whether something takes their names. The script is the
// launching machine's.
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
