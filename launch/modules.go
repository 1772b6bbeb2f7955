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

// Modules are those that the launch imports, as far as is known, sorted: the nodes look
// whether something takes their names. The script is the launching machine's.
func Modules(scriptImports []string) []string {
	all := slices.Clone(scriptImports)
	for _, names := range imported {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
