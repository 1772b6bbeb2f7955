package launch

import "slices"

// Imported is a module that training imports whatever the script is, and does not come
// through without: with an empty file of its name in the script's way the ranks die.
//
// Source: each was tried with torch 2.15.0 and DeepSpeed 0.19.8 under python 3.11, in
// the import of torch, one step of AdamW by DistributedDataParallel with a DataLoader, and
// the import of deepspeed.
type Imported int

const (
	NotImported Imported = iota
	// ByDeepSpeed is for what torch alone comes through without.
	ByDeepSpeed
	ByTorch
)

var imported = map[Imported][]string{
	ByTorch: {
		"ast", "asyncio", "base64", "bisect", "collections", "colorsys", "concurrent", "contextlib", "contextvars", "copy", "copyreg", "ctypes",
		"dataclasses", "datetime", "decimal", "dis", "email", "fnmatch", "getpass", "glob", "graphlib", "gzip", "heapq", "http", "inspect", "json",
		"keyword", "linecache", "logging", "mmap", "mpmath", "multiprocessing", "numbers", "numpy", "opcode", "operator", "pathlib", "pickle", "pkgutil",
		"platform", "pprint", "profile", "queue", "quopri", "random", "re", "reprlib",
	},
	ByDeepSpeed: {
		"annotated_types", "argparse", "deepspeed", "packaging", "psutil", "pydantic", "pydantic_core",
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
