// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

var Env = checks.Check{
	ID:       "launcher-env",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionLauncher, facts.SectionEnv},
	OnHead:   true,
	Run:      judgeExports,
}

func judgeExports(view checks.View) []checks.Finding {
	var findings []checks.Finding
	for _, note := range view.Launch.Notes {
		if judged := noteRules[note.ID]; judged.exported {
			findings = append(findings, judged.finding(view, note))
		}
	}
	switch {
	case view.Launch.Torchrun():
		return checks.Skipped("torchrun exports nothing and reads no .deepspeed_env: its ranks have torchrun's own environment")
	case view.Launch.NoSSH && findings == nil:
		return checks.Skipped("--no_ssh: you start every node by hand, in its own environment")
	case view.Launch.Local && findings == nil:
		return checks.Skipped("one active host: its ranks have the environment of the launch, and no .deepspeed_env is read")
	case view.Launch.NoSSH, view.Launch.Local:
		return findings
	}
	for _, file := range launch.AppliedEnvFiles(view.Head.Launcher.EnvFiles, view.Launch.DeepSpeed) {
		findings = append(findings, fileProblems(view, file)...)
		findings = append(findings, setTwice(view, file)...)
	}
	return slices.Concat(findings, namedEnvFile(view), tooLong(view), lost(view), unexported(view), unset(view), lackingTokens(view), ignored(view))
}

// lost reports exports that the login shell of a node does not pass on. tcsh and csh have no export
// command. They print an error and continue, so the ranks of the node start without the variables.
//
// A variable of a file is there because the ranks need it, so it fails the launch unless it only
// tunes or reports something. DeepSpeed exports the others only because of their names.
func lost(view checks.View) (findings []checks.Finding) {
	for _, node := range view.Nodes {
		if node.Env == nil || node.Env.ExportTrial == nil {
			continue
		}
		typed := *node.Env.ExportTrial
		typed.Lost = slices.DeleteFunc(slices.Clone(typed.Lost), func(name string) bool { // the ranks start in the working directory anyway
			export, _ := ranks.Exported(view, name)
			return export.Source == launch.OwnPath && export.Value == view.Launch.WorkDir
		})
		if len(typed.Lost) == 0 {
			continue
		}
		f := checks.Finding{
			Verdict:  checks.Warn,
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("the login shell %s does not pass on %s", path.Base(typed.Shell), text.Plural(len(typed.Lost), "exported variable")),
			Got:      "after export NAME=VALUE, the ranks lack " + text.Some(typed.Lost, 4),
			Want:     "a login shell in which export NAME=VALUE sets the variable",
			WouldSee: "ranks with other settings than those of the other nodes",
		}
		if strings.HasSuffix(typed.Shell, "csh") {
			f.Remedy = []fix.Command{
				fix.Note("set the variables with setenv in ~/.cshrc of {nodes}, or change the login shell"),
				fix.On(`sudo usermod -s /bin/bash "$(id -un)"`).As(fix.Or),
			}
		} else {
			f.Remedy = []fix.Command{ranks.SearchSession(typed.Lost[0])}
		}
		if typed.Message != "" {
			f.WouldSee = "{node}: " + typed.Message
		}
		for _, name := range typed.Lost {
			if export, _ := ranks.Exported(view, name); strings.Contains(export.Source, "/") && ranks.Unread(view, name) == "" && !tunes(name) {
				f.Verdict = checks.Fail
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// tunes reports whether a variable changes only the speed or the log of a training.
func tunes(name string) bool {
	return slices.Contains([]string{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONFAULTHANDLER",
		"TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG", "TOKENIZERS_PARALLELISM", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "KMP_AFFINITY"}, name)
}

// takenOut returns the commands that remove a variable where it is set. The note begins with the
// name of the variable.
func takenOut(view checks.View, note hostfile.Note) []fix.Command {
	name, _, _ := strings.Cut(note.Message, "=")
	if export, isExported := ranks.Exported(view, name); isExported {
		return ranks.TakeOut(view, export)
	}
	return []fix.Command{fix.Here("unset %s", fix.Variable(name))}
}

// longestArgument is the kernel's limit for one argument of a program, in bytes with the
// terminating zero (Linux, binfmts.h, MAX_ARG_STRLEN). It matters because DeepSpeed passes all
// exports to pdsh as one argument. sshd also passes the whole command to the shell as one argument.
const longestArgument = 128 << 10

func tooLong(view checks.View) []checks.Finding {
	by := view.Launch.StartedBy()
	if !by.Shell {
		return nil
	}
	length := 0
	for _, s := range view.Launch.Exports {
		length += len("export =; ") + len(s.Name) + len(s.Value)
	}
	if length < longestArgument {
		return nil
	}
	longest := slices.MaxFunc(view.Launch.Exports, func(a, b facts.Setting) int { return len(a.Value) - len(b.Value) })
	return []checks.Finding{{
		Verdict:  checks.Fail,
		Summary:  "the exported variables are longer than one argument of a program can be",
		Got:      compare.Exactly(int64(length)) + "; the longest is " + longest.Name,
		Want:     "less than " + compare.Exactly(longestArgument),
		WouldSee: fmt.Sprintf("OSError: [Errno 7] Argument list too long: '%s'", by.Program()),
		Remedy:   ranks.TakeOut(view, longest),
	}}
}

// fileProblems returns the findings for lines of a .deepspeed_env that end the launch or have an
// unexpected effect. There is one finding for each kind of problem.
func fileProblems(view checks.View, file facts.EnvFile) []checks.Finding {
	_, problems := launch.ParseEnvFile(file)
	var findings []checks.Finding
	for _, alike := range text.GroupBy(problems, func(problem hostfile.LineError) string { return problem.Message }) {
		findings = append(findings, envLines(view, file, alike.All))
	}
	return findings
}

// envLines returns the finding for one kind of mistake, with all lines that contain the mistake.
func envLines(view checks.View, file facts.EnvFile, problems []hostfile.LineError) checks.Finding {
	first := problems[0]
	f := checks.Finding{Verdict: checks.Warn, Summary: first.Message, Got: file.Path, WouldSee: first.DeepSpeed}
	var numbers []string
	var deletions, shown []fix.Arg
	for _, problem := range problems {
		if problem.Line > 0 {
			numbers = append(numbers, fmt.Sprint(problem.Line))
			deletions = append(deletions, fix.Code("%sd", fix.Number(problem.Line)))
			shown = append(shown, fix.Code("%sp", fix.Number(problem.Line)))
		}
	}
	if numbers == nil {
		f.Verdict, f.Remedy = checks.Fail, []fix.Command{fix.Here("chmod u+r %s", fix.Path(file.Path))}
		return f
	}
	f.Got = fmt.Sprintf("line %s of %s", strings.Join(numbers, ", "), file.Path)
	f.Remedy = []fix.Command{fix.Here("sed -i '%s' %s", fix.Join(";", deletions...), fix.Path(file.Path))}
	switch comment := strings.HasPrefix(strings.TrimSpace(file.Lines[first.Line-1]), "#"); {
	case first.DeepSpeed != "":
		f.Verdict = checks.Fail
	case comment:
		f.Verdict = checks.Fail
		f.WouldSee = "nothing: no rank starts, and the launch ends with exit code 0"
	default:
		f.Remedy = []fix.Command{fix.Here("sed -n '%s' %s   # correct these names", fix.Join(";", shown...), fix.Path(file.Path)).As(fix.Look)}
		f.WouldSee = "bash: line 1: export: not a valid identifier"
	}
	return f
}

// setTwice warns about names that a file sets to different values. The last value counts.
// accelerate appends lines at every launch, mostly with the same values, and these do not matter.
func setTwice(view checks.View, file facts.EnvFile) []checks.Finding {
	settings, _ := launch.ParseEnvFile(file)
	last := map[string]string{}
	for _, s := range settings {
		last[s.Name] = s.Value
	}
	var findings []checks.Finding
	for _, s := range settings {
		if s.Value == last[s.Name] {
			continue
		}
		findings = append(findings, checks.Finding{
			Summary: fmt.Sprintf("%s sets %s more than once; the last line wins", file.Path, s.Name),
			Got:     fmt.Sprintf("%s=%s after other values", s.Name, last[s.Name]),
			Want:    "one line for each name",
			Remedy:  []fix.Command{fix.Here("grep -n '^%s=' %s   # keep the line that you want", fix.Variable(s.Name), fix.Path(file.Path)).As(fix.Look)},
		})
	}
	return findings // Fold joins the findings that are equal
}

// ignored warns about variables that have no effect. DeepSpeed takes the master's address and port
// from its arguments, and the devices from the hostfile. In a pod, Kubernetes sets MASTER_PORT to
// tcp://… if a Service has the name master. DeepSpeed never reads that variable.
func ignored(view checks.View) []checks.Finding {
	planned := map[string]string{"MASTER_ADDR": view.Launch.MasterAddr, "MASTER_PORT": fmt.Sprint(view.Launch.MasterPort)}
	var findings []checks.Finding
	for _, setting := range view.Head.Env.Vars {
		plan, isMaster := planned[setting.Name]
		if !isMaster || setting.Value == "" || setting.Value == plan || strings.Contains(setting.Value, "://") {
			continue
		}
		argument := strings.ToLower(setting.Name)
		findings = append(findings, checks.Finding{
			Summary:  setting.Name + " is set in the launching shell, but DeepSpeed does not read it",
			Got:      setting.Value,
			Want:     "--" + argument + " on the command line",
			WouldSee: "ranks that meet at another address or port",
			Remedy:   []fix.Command{fix.Here("deepspeed --%s=%s …", fix.Name(argument), fix.Host(setting.Value)), fix.Here("unset %s", fix.Variable(setting.Name)).As(fix.Or)},
		})
	}
	return append(findings, ignoredDevices(view)...)
}

// ignoredDevices warns about CUDA_VISIBLE_DEVICES. launch.py overwrites this variable with the
// slots of its node.
func ignoredDevices(view checks.View) []checks.Finding {
	const name = "CUDA_VISIBLE_DEVICES"
	value, _ := launch.Lookup(view.Head.Env, name)
	isOther := func(h hostfile.Host) bool {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Slots), " ", ","), "[]") != value
	}
	if !view.Launch.StartedBy().LaunchPy || value == "" || view.Launch.Accelerator == "cpu" || !slices.ContainsFunc(view.Launch.Hosts, isOther) {
		return nil
	}
	return []checks.Finding{{
		Summary:  name + " is set, but DeepSpeed replaces it with the slots of each host",
		Got:      name + "=" + value,
		Want:     "the devices given as slots of --include",
		WouldSee: "training on other devices than those of the variable",
		Remedy:   []fix.Command{fix.Here("deepspeed --include %s …   # the same for every host", fix.Word("HOST:"+value)).As(fix.Or), fix.Here("unset %s   # if the slots of the hostfile are right", fix.Variable(name)).As(fix.Or)},
	}}
}

// namedEnvFile checks the file that DS_ENV_FILE names. DeepSpeed itself prints no error if the file
// is missing or wrong.
//
// Source: deepspeed/launcher/runner.py, 0.10.1 and later.
func namedEnvFile(view checks.View) []checks.Finding {
	name, _ := launch.Lookup(view.Head.Env, "DS_ENV_FILE")
	found := func(file facts.EnvFile) bool { return file.Path == name || strings.HasSuffix(file.Path, "/"+name) }
	f := checks.Finding{Got: "DS_ENV_FILE=" + name, WouldSee: "nothing: none of its variables is exported"}
	rest, isHome := strings.CutPrefix(name, "~/")
	switch {
	case name == "":
		return nil
	case hostfile.Before(view.Launch.DeepSpeed, "0.10.1"):
		f.Summary = "DeepSpeed reads DS_ENV_FILE only since 0.10.1"
		f.Want = "a .deepspeed_env in the home or the working directory"
		f.Remedy = []fix.Command{fix.Here("cat %s >> ~/.deepspeed_env", fix.Path(name))}
	case isHome:
		f.Summary = "DeepSpeed does not expand ~ in DS_ENV_FILE, so it reads no file"
		f.Remedy = []fix.Command{fix.Here(`export DS_ENV_FILE="$HOME"/%s`, fix.Word(rest))}
	case !slices.ContainsFunc(view.Head.Launcher.EnvFiles, found):
		f.Summary = "DeepSpeed silently ignores DS_ENV_FILE: the file is not in ~ or the working directory"
		f.Remedy = []fix.Command{fix.Here("ls -l %s", fix.Path(name)).As(fix.Look), fix.Here("unset DS_ENV_FILE   # if you do not need it").As(fix.Or)}
	default:
		return nil
	}
	return []checks.Finding{f}
}

// unexported warns about variables that are set in the launching shell and matter to the ranks, but
// that the launcher does not export. It leaves out nodes whose environment was not seen.
func unexported(view checks.View) []checks.Finding {
	if view.Launch.StartedBy().Environment != launch.EnvironmentExported {
		return nil
	}
	var findings []checks.Finding
	for _, setting := range view.Head.Env.Vars {
		if _, isExported := ranks.Exported(view, setting.Name); isExported || setting.Value == "" || !matters(view.Launch, setting.Name) {
			continue
		}
		var without []string
		for _, node := range view.Nodes {
			if node.Env != nil && ranks.Env(view, node).Get(setting.Name).Value != setting.Value && !takesCPU(view.Launch, node, setting) {
				without = append(without, node.Name)
			}
		}
		if without == nil {
			continue
		}
		f := checks.Finding{
			Nodes:   without,
			Summary: setting.Name + " is set in the launching shell, but the launch does not export it",
			Got:     "not set, or to another value, on " + hostfile.Fold(without),
			Want:    setting.Value,
			Remedy:  []fix.Command{ranks.ExportLine(view.Launch, setting.Name, setting.Value)},
		}
		if lacking := withoutInterface(view, setting); lacking != nil { // exporting the variable would end the launch on those nodes
			f.Nodes = lacking
			f.Summary += fmt.Sprintf("; the node has no interface %s", setting.Value)
			f.Want = "an interface that every node has, or no " + setting.Name
			f.Remedy = []fix.Command{fix.On("ip -br addr").As(fix.Look), fix.Here("unset %s   # or remove it from the command that you type", fix.Variable(setting.Name))}
		}
		findings = append(findings, f)
	}
	return findings
}

// withoutInterface returns the nodes that lack the interface that a variable names.
func withoutInterface(view checks.View, setting facts.Setting) (lacking []string) {
	for _, node := range view.Nodes {
		if node.Net == nil {
			continue
		}
		isLacking := false
		switch setting.Name {
		case "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME":
			_, isLacking = ranks.NoInterface(node.Net, setting.Value)
		case "NCCL_SOCKET_IFNAME":
			selected, chosen := nccl.MatchIfname(setting.Value, nccl.Addressed(node.Net))
			isLacking = chosen && len(selected) == 0
		}
		if isLacking {
			lacking = append(lacking, node.Name)
		}
	}
	return lacking
}

// takesCPU reports whether DeepSpeed chooses the variable's value by default: it uses the CPU if
// there is no accelerator.
//
// Source: accelerator/real_accelerator.py, get_accelerator, 0.14.1 to 0.19.8.
func takesCPU(p launch.Prediction, node *facts.Node, setting facts.Setting) bool {
	devices, seen := launch.Accelerators(node)
	return setting.Name == "DS_ACCELERATOR" && setting.Value == "cpu" && seen && devices == 0 && !hostfile.Before(p.DeepSpeed, "0.14.1")
}

// matters reports whether a variable changes the behaviour of the ranks although DeepSpeed does not
// export it, or not from every machine. For example, DeepSpeed exports NCCL's variables only from a
// machine with a GPU.
func matters(p launch.Prediction, name string) bool {
	prefix, _, isPrefixed := strings.Cut(name, "_")
	if isPrefixed && (p.Accelerator != "cpu" && prefix == "NCCL" || slices.Contains([]string{"GLOO", "TP", "TORCH"}, prefix)) {
		return true
	}
	return slices.Contains([]string{"LD_LIBRARY_PATH", "LD_PRELOAD", "DEEPSPEED_TIMEOUT", "DS_ACCELERATOR", "DS_SKIP_CUDA_CHECK",
		"USE_LIBUV", "OMP_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
		"TRANSFORMERS_OFFLINE", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"}, name)
}
