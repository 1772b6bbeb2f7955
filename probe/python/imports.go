// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// afterImports is the time that remains for the rest of the section when the imports are stopped. An
// import of torch takes 2 s on an idle machine, and much longer on a busy one.
const afterImports = 2 * time.Second

// importCode imports modules as a rank would, one after another. It leaves no core file if one of
// them crashes. The directory of the launch is not searched: a module there that hides an installed
// one is a fact of its own. For a module that fails, the code prints the file that raised the error,
// and the last line of the error, or the first of a ValueError, whose last line may list valid
// values. It says nothing about modules that are not installed.
const importCode = `import sys
sys.path = [path for path in sys.path if path]
out = sys.stdout.buffer
def say(*words):
    out.write(("\npreflight " + "\t".join(words) + "\n").encode("utf-8", "backslashreplace"))
    out.flush()
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except Exception:
    pass
for name in sys.argv[1:]:
    say("importing", name)
    try:
        __import__(name)
        say("imported", name)
    except BaseException:
        kind, error, frames = sys.exc_info()
        if getattr(error, "name", "") == name and kind.__name__ == "ModuleNotFoundError":
            continue
        file = error.filename if kind is SyntaxError else ""
        at = ""
        while frames:
            code = frames.tb_frame.f_code
            at = at if code.co_filename[:1] == "<" else code.co_filename
            frames = frames.tb_next
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        say("failed", name, file or at, ": ".join([kind.__name__] + (lines[:1] if kind is ValueError else lines[-1:])))
say("end")
sys.modules["os"]._exit(0)
`

// misleading lists the variables that lead an import to other files, or end it (torch/_logging).
var misleading = []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "TORCH_LOGS"}

// imports imports the modules that the launch imports and those of damaged packages, and returns the
// ones that cannot be imported. If an import fails only because of a variable, imports names it. The
// damaged packages get the results of their modules. If there is not enough time, nothing is
// returned about the modules that remain.
func imports(ctx context.Context, o machine.Options, interpreter, dir string, damaged []facts.Damage) (broken []facts.BrokenImport) {
	modules := slices.Clone(o.Imports)
	for _, d := range damaged {
		if !slices.Contains(modules, d.Module) {
			modules = append(modules, d.Module)
		}
	}
	if len(modules) == 0 {
		return nil
	}
	ctx, cancel := machine.Ahead(ctx, afterImports)
	defer cancel()
	env := os.Environ()
	for name, value := range o.Exports {
		env = append(env, name+"="+value)
	}
	broken, worked := tryImports(ctx, env, interpreter, dir, modules)
	for i := range damaged {
		d := &damaged[i]
		d.Imported = slices.Contains(worked, d.Module)
		if at := slices.IndexFunc(broken, func(b facts.BrokenImport) bool { return b.Module == d.Module }); at >= 0 {
			d.Import = broken[at].Error
		}
	}
	for _, name := range misleading {
		if len(broken) == 0 || o.Getenv(name) == "" {
			continue
		}
		without := slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, name+"=") })
		if _, worked := tryImports(ctx, without, interpreter, dir, []string{broken[0].Module}); len(worked) > 0 {
			broken[0].Because = name + "=" + o.Getenv(name)
			break
		}
	}
	return broken
}

func tryImports(ctx context.Context, env []string, interpreter, dir string, modules []string) (broken []facts.BrokenImport, worked []string) {
	stdout, stderr, err := hostsys.Child{Path: interpreter, Args: append([]string{"-B", "-c", importCode}, modules...), Dir: dir, Env: env}.Run(ctx)
	trying := ""
	for line := range strings.Lines(stdout) {
		words, marked := strings.CutPrefix(strings.TrimSpace(line), "preflight ")
		word := strings.SplitN(words, "\t", 4)
		switch {
		case !marked:
		case word[0] == "importing" && len(word) == 2:
			trying = word[1]
		case word[0] == "imported":
			worked, trying = append(worked, trying), ""
		case word[0] == "failed" && len(word) == 4:
			broken, trying = append(broken, facts.BrokenImport{Module: word[1], File: word[2], Error: machine.Clipped(word[3])}), ""
		case word[0] == "end":
			trying = ""
		}
	}
	if ctx.Err() != nil || trying == "" {
		return broken, worked
	}
	if err == nil {
		err = errors.New("the import ended the interpreter")
	}
	return append(broken, facts.BrokenImport{Module: trying, Error: machine.Clipped(hostsys.Complaint(stderr, err))}), worked
}
