package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// namedEnvFile judges DS_ENV_FILE, which DeepSpeed follows in silence.
//
// Source: deepspeed/launcher/runner.py, 0.10.1 and later.
func namedEnvFile(view View) []Finding {
	name := headVariable(view, "DS_ENV_FILE")
	found := func(file facts.EnvFile) bool { return file.Path == name || strings.HasSuffix(file.Path, "/"+name) }
	f := Finding{Nodes: []string{view.Head.Name}, Got: "DS_ENV_FILE=" + name, WouldSee: "nothing: none of its variables is exported"}
	rest, isHome := strings.CutPrefix(name, "~/")
	switch {
	case name == "":
		return nil
	case launch.Before(view.Launch.DeepSpeed, "0.10.1"):
		f.Summary = "DeepSpeed reads DS_ENV_FILE since 0.10.1 only"
		f.Want = "a .deepspeed_env in the home or the working directory"
		f.Remedy = []fix.Command{fix.Here("cat %s >> ~/.deepspeed_env", fix.Path(name))}
	case isHome:
		f.Summary = "DeepSpeed does not expand ~ in DS_ENV_FILE, and reads no file"
		f.Remedy = []fix.Command{fix.Here(`export DS_ENV_FILE="$HOME"/%s`, fix.Word(rest))}
	case !slices.ContainsFunc(view.Head.Launcher.EnvFiles, found):
		f.Summary = "DS_ENV_FILE names a file that is neither in the home nor in the working directory, and DeepSpeed silently goes without"
		f.Remedy = []fix.Command{fix.Here("ls -l %s", fix.Path(name)), fix.Here("unset DS_ENV_FILE")}
	default:
		return nil
	}
	return []Finding{f}
}
