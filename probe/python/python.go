// SPDX-License-Identifier: Apache-2.0

// Package python reads facts about what the ranks will import. It starts the launch's interpreter
// once, asks it for its search path, and reads the rest from files. These facts are about the
// packages, torch, the NCCL that torch will load, and the programs that compile DeepSpeed's ops.
// It imports torch, and packages that write nothing, only if the launch will import them.
package python

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// askPython is the only code that CollectPython runs in the launch's interpreter. It imports only
// sys, and runs in Python 2 as well (which `python` may be). It marks its lines, because
// sitecustomize and .pth files may also print lines.
//
// Its arguments are modules, directories and scripts. Scripts are compiled and not run. Files with
// NUL bytes, such as .pyc and .zip, can be run but are not compiled. Modules are searched and not
// imported.
//
// With PYTHONSAFEPATH the first directory, the script's own, is not searched. The directories among
// the arguments are searched last, because it does not matter where a module
// is found, and most modules are Python's own. The code lists directories itself. Python's finder
// would read each directory again for each module, at twice the cost. So the code asks the finders
// only for modules that are in no directory. The interpreter exits without cleaning up, which saves
// a sixth of its time.
const askPython = `import sys
out = getattr(sys.stdout, "buffer", sys.stdout)
def say(key, value):
    line = "\npreflight " + key + " " + value + "\n"
    out.write(line if str is bytes else line.encode("utf-8", "surrogateescape"))
say("version", "%d.%d.%d" % sys.version_info[:3])
say("executable", sys.executable or "")
say("prefix", sys.prefix)
for path in sys.path:
    say("path", path)
say("builtin", " ".join(sys.builtin_module_names))
say("loaded", " ".join(name for name in sys.modules if "." not in name))
try:
    for script in sys.argv[3:]:
        with open(script, "rb") as f:
            text = f.read()
        if b"\0" not in text:
            compile(text, script, "exec", 0, 1)
            try:
                text.decode("utf-8")
            except UnicodeDecodeError: # compile accepts this in comments, and python does not
                import tokenize
                try:
                    tokenize.open(script).read()
                except (SyntaxError, UnicodeDecodeError):
                    say("refuses", "Non-UTF-8 code, but no encoding declared (%s)" % script.rsplit("/", 1)[-1])
except SyntaxError:
    error = sys.exc_info()[1]
    say("refuses", "%s (%s, line %s)" % (error.msg, script.rsplit("/", 1)[-1], error.lineno))
except Exception:
    pass
try:
    import _imp
    say("builtin", " ".join(_imp._frozen_module_names()))
except Exception:
    pass
try:
    searched = sys.argv[2].split(":")
    if getattr(sys.flags, "safe_path", False):
        searched = searched[1:]
    sys.path = sys.path[1:] + sys.path[:1] + [path for path in searched if path]
    if sys.version_info >= (3, 4):
        os = sys.modules["os"]
        tails = [".py", ".pyc"] + _imp.extension_suffixes()
        plain = [path for path in sys.path if len(sys.path_hooks) == 2 and os.path.isdir(path) and os.access(path, os.R_OK)]
        listed = [(path + "/", set(os.listdir(path))) for path in plain]
        def lies(name):
            for path, held in listed:
                if name in held and os.path.isdir(path + name):
                    return True
                for tail in tails:
                    if name + tail in held and os.path.isfile(path + name + tail):
                        return True
        sys.path = [path for path in sys.path if path not in plain]
        say("unfound", " ".join(name for name in sys.argv[1].split() if name not in sys.modules and not lies(name)
            and all(finder.find_spec(name, None) is None for finder in sys.meta_path)))
except Exception:
    pass
sys.stdout.flush()
sys.modules["os"]._exit(0)
`

// pythonEnv adds to an environment the variables that the launch exports for the interpreter itself.
// A malformed PYTHONHASHSEED or a wrong PYTHONHOME ends every interpreter at its start. askPython
// gets PYTHONPATH as an argument.
func pythonEnv(environ []string, exports map[string]string) []string {
	for name, value := range exports {
		if strings.HasPrefix(name, "PYTHON") && name != "PYTHONPATH" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// CollectPython asks the launch's interpreter where it searches for packages, and reads the rest
// from files.
//
// DeepSpeed runs `python -u -m deepspeed.launcher.launch` after a cd to the working directory. So
// site directories count, including the user's, and the working directory comes first.
func CollectPython(ctx context.Context, o machine.Options) (*facts.Python, error) {
	python := &facts.Python{SysPath: []string{}, Packages: map[string]string{}, MetadataOnly: []string{}, NCCL: []facts.NCCLLibrary{}}
	if !findInterpreter(o.Interpreter, python) {
		python.Elsewhere = elsewhere(ctx, o, python.Path, o.WorkDir)
		return python, nil
	}
	dir, err := machine.LaunchDirectory(o.WorkDir)
	if err != nil {
		return nil, err
	}
	// The flag -B is set because a probe must not leave .pyc files behind. The flags -I, -S and -E
	// are not set, because each would hide something that the launch will see.
	searched := strings.Join([]string{machine.ScriptDirectory(o), o.Getenv("PYTHONPATH")}, ":")
	interpreter := hostsys.Child{Path: python.Path, Args: append([]string{"-B", "-c", askPython, strings.Join(o.Modules, " "), searched}, scripts(o)...), Dir: dir}
	interpreter.Env = pythonEnv(os.Environ(), o.Exports)
	stdout, stderr, err := interpreter.Run(ctx)
	own, complete := parseAnswer(stdout, dir, python)
	if !complete {
		if err == nil {
			err = errors.New("it ran and printed nothing that was asked")
		}
		python.Problem = cmp.Or(fatalError(stderr), hostsys.Complaint(stderr, err))
		if home := o.Getenv("PYTHONHOME"); home != "" {
			python.Problem = "PYTHONHOME=" + home + ": " + python.Problem
		}
		return python, nil
	}

	site := readSite(ctx, python.SysPath)
	python.Packages, python.MetadataOnly, python.Shadowed = site.versions(), site.bare, site.shadowed()
	torchDir := site.find("torch", "version.py")
	python.Torch = readTorch(torchDir, site.installed["torch"])
	if python.Torch == nil {
		python.Elsewhere = elsewhere(ctx, o, python.Path, dir)
	}
	if python.Torch != nil && torchDir != "" {
		python.Torch.Unloadable = unloadable(ctx, python.Executable, torchDir, dir)
	}
	if python.Torch != nil && python.Packages["torch"] == "" {
		python.Packages["torch"] = python.Torch.Version // a source tree has no metadata, so the version is set here
	}
	python.Ops = readOps(site.find("deepspeed", "git_version_info_installed.py"))
	python.NCCL = findNCCL(ctx, ncclSearch{
		torchDir: torchDir,
		sysPath:  python.SysPath,
		preload:  os.Getenv("LD_PRELOAD"),
		path:     o.Getenv("LD_LIBRARY_PATH"),
		workDir:  dir,
		at:       o.At,
	})
	python.Shadows = shadows(o, site, own, dir, python)
	python.Damaged, python.Uncompared = damage(ctx, o, site)
	python.Protobuf = readProtobuf(site, os.Getenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"))
	python.Broken = imports(ctx, o, python.Executable, dir, python.Damaged)
	return python, ctx.Err()
}

// scripts returns the launch's scripts that have the file name of a Python file.
func scripts(o machine.Options) (paths []string) {
	for _, named := range o.Files {
		if named.Role == facts.RoleScript && strings.HasSuffix(named.Path, ".py") {
			paths = append(paths, o.At(named.Path))
		}
	}
	return paths
}

// fatalError returns why an interpreter did not start, with the exception if there is one, "" if
// stderr does not say. The last line, "<no Python frame>", says nothing.
func fatalError(stderr string) string {
	_, fatal, _ := strings.Cut(stderr, "Fatal Python error: ")
	fatal, rest, _ := strings.Cut(fatal, "\n")
	_, rest, _ = strings.Cut(rest, "Python runtime state: ")
	_, rest, _ = strings.Cut(rest, "\n")
	if exception, _, _ := strings.Cut(rest, "\n"); fatal != "" && exception != "" && !strings.HasPrefix(exception, "Current thread") {
		fatal += ": " + exception
	}
	return fatal
}

// findInterpreter sets Path, Found and, if there is more to report, Problem. If no interpreter was
// requested, it uses the one that a shell would find: python3, otherwise python.
func findInterpreter(asked string, python *facts.Python) bool {
	names := []string{asked}
	if asked == "" {
		names = []string{"python3", "python"}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			python.Path, python.Found = path, true
			return true
		}
		if errors.Is(err, fs.ErrPermission) {
			python.Path, python.Found, python.Problem = name, true, "not executable for this user"
			return false
		}
	}
	python.Path = names[0]
	// A virtual environment that was copied from another machine contains links to that machine's
	// interpreter.
	python.Problem = machine.BrokenLink(python.Path)
	return false
}

// parseAnswer parses the output of askPython and reports whether it is complete. With -c the first
// entry of sys.path is empty and means the working directory. With -m Python would write out the
// directory.
func parseAnswer(output, dir string, python *facts.Python) (own ownModules, complete bool) {
	for line := range strings.Lines(output) {
		marked, found := strings.CutPrefix(strings.TrimRightFunc(line, unicode.IsSpace), "preflight ")
		if !found {
			continue
		}
		key, value, _ := strings.Cut(marked, " ")
		switch key {
		case "version":
			python.Version = value
		case "executable":
			python.Executable = value
		case "prefix":
			python.Prefix = value
		case "refuses":
			python.ScriptError = value
		case "unfound":
			python.Unfound = append([]string{}, strings.Fields(value)...)
		case "path":
			if value == "" {
				value = dir
			}
			python.SysPath = append(python.SysPath, value)
		case "builtin":
			own.builtin = append(own.builtin, strings.Fields(value)...)
		case "loaded":
			own.loaded = strings.Fields(value)
		}
	}
	return own, python.Version != "" && len(python.SysPath) > 0
}

// ownModules lists the modules that no file can hide. They are built into the interpreter, or
// loaded before the script's directory is searched.
type ownModules struct{ builtin, loaded []string }

// builtOps matches the line that DeepSpeed's setup.py leaves in the package, a Python dictionary:
// installed_ops={'async_io': False, 'cpu_adam': True}.
var (
	builtOps = lazyregexp.New(`(?m)^installed_ops\s*=\s*\{(.*)\}`)
	builtOp  = lazyregexp.New(`['"](\w+)['"]\s*:\s*(True|False)`)
)

// readOps returns which of DeepSpeed's ops the package contains in compiled form. dir is the
// package's directory, or "" if there is none. A source tree that was never installed has no such
// file, and no compiled ops.
func readOps(dir string) map[string]bool {
	text, err := os.ReadFile(filepath.Join(dir, "git_version_info_installed.py"))
	if dir == "" || err != nil {
		return nil
	}
	line := builtOps.FindSubmatch(text)
	if line == nil {
		return nil
	}
	ops := map[string]bool{}
	for _, op := range builtOp.FindAllSubmatch(line[1], -1) {
		ops[string(op[1])] = string(op[2]) == "True"
	}
	return ops
}
