package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

var launcherEnv = Check{
	ID:       "launcher-env",
	Title:    "the variables that matter reach the ranks, and as they were written",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionLauncher, facts.SectionEnv},
	OnHead:   true,
	Doc: "DeepSpeed exports the variables of the launching machine whose names begin with NCCL, PYTHON, MLFLOW, MV2 or UCX, and every line of .deepspeed_env " +
		"in the home and the working directory, or of the file that DS_ENV_FILE names. That file has neither comments nor blank lines: each of them ends the " +
		"launch, and \"# X=1\" makes a comment of the whole remote command, so that the nodes run nothing and report success. The files are parsed as that " +
		"release of DeepSpeed parses them, values are followed through its quotes, pdsh and the shell of the nodes, and what is set where the launch is " +
		"typed, matters to the ranks and is not exported is named. Values that may be secrets are not looked at.",
	WouldSee: "nothing: the ranks see another value, or none",
	Run:      judgeExports,
}

func judgeExports(view View) []Finding {
	var findings []Finding
	for _, note := range view.Launch.Notes {
		if judged := traps[note.Trap]; judged.exported {
			findings = append(findings, judged.finding(view, note))
		}
	}
	switch {
	case view.Launch.Torchrun():
		return skip("torchrun exports nothing and reads no .deepspeed_env: its ranks have the environment it is started in")
	case view.Launch.NoSSH && findings == nil:
		return skip("--no_ssh: every node is started by hand, in its own environment")
	case view.Launch.Local && findings == nil:
		return skip("one active host: its ranks have the environment the launch is typed in, and no .deepspeed_env is read")
	case view.Launch.NoSSH, view.Launch.Local:
		return findings
	}
	for _, file := range launch.AppliedEnvFiles(view.Head.Launcher.EnvFiles, view.Launch.DeepSpeed) {
		findings = append(findings, envFileProblems(view, file)...)
		findings = append(findings, saidTwice(view, file)...)
	}
	findings = append(findings, namedEnvFile(view)...)
	findings = append(findings, tooLong(view)...)
	return append(findings, append(unexported(view), ignored(view)...)...)
}

// takenOut takes the variable that a note begins with out where it is set.
func takenOut(view View, note hostfile.Note) []fix.Command {
	name, _, _ := strings.Cut(note.Message, "=")
	if export, isExported := exported(view, name); isExported {
		return takeOut(view, export)
	}
	return []fix.Command{fix.Here("unset %s", fix.Variable(name))}
}

// longestArgument is what the kernel takes in one argument of a program, the end
// included (Linux, binfmts.h, MAX_ARG_STRLEN). DeepSpeed hands pdsh all exports as
// one, and sshd its shell the whole command.
const longestArgument = 128 << 10

func tooLong(view View) []Finding {
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
	return []Finding{{
		Verdict: Fail, Nodes: []string{view.Head.Name},
		Summary:  "the exported variables are longer than one argument of a program may be",
		Got:      exactly(int64(length)) + ", the longest of them " + longest.Name,
		Want:     "less than " + exactly(longestArgument),
		WouldSee: fmt.Sprintf("OSError: [Errno 7] Argument list too long: '%s'", by.Program()),
		Remedy:   takeOut(view, longest),
	}}
}
