package checks

import (
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// envFileProblems are the lines of a .deepspeed_env that end the launch or do
// something else than they seem to, those of one kind together.
func envFileProblems(view View, file facts.EnvFile) []Finding {
	_, problems := launch.ParseEnvFile(file)
	var kinds []string
	lines := map[string][]hostfile.LineError{}
	for _, problem := range problems {
		if lines[problem.Message] == nil {
			kinds = append(kinds, problem.Message)
		}
		lines[problem.Message] = append(lines[problem.Message], problem)
	}
	var findings []Finding
	for _, kind := range kinds {
		findings = append(findings, envLines(view, file, lines[kind]))
	}
	return findings
}

// envLines is one kind of mistake and every line that makes it.
func envLines(view View, file facts.EnvFile, problems []hostfile.LineError) Finding {
	first := problems[0]
	f := Finding{Verdict: Warn, Nodes: []string{view.Head.Name}, Summary: first.Message, Got: file.Path, WouldSee: first.DeepSpeed}
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
		f.Verdict, f.Remedy = Fail, []fix.Command{fix.Here("chmod u+r %s", fix.Path(file.Path))}
		return f
	}
	f.Got = fmt.Sprintf("line %s of %s", strings.Join(numbers, ", "), file.Path)
	f.Remedy = []fix.Command{fix.Here("sed -i '%s' %s", fix.Join(";", deletions...), fix.Path(file.Path))}
	switch comment := strings.HasPrefix(strings.TrimSpace(file.Lines[first.Line-1]), "#"); {
	case first.DeepSpeed != "":
		f.Verdict = Fail
	case comment:
		f.Verdict = Fail
		f.WouldSee = "nothing: no rank starts, and the launch ends with exit code 0"
	default:
		f.Remedy = []fix.Command{fix.Here("sed -n '%s' %s   # correct these names", fix.Join(";", shown...), fix.Path(file.Path))}
		f.WouldSee = "bash: line 1: export: not a valid identifier"
	}
	return f
}

// saidTwice warns of a name that a file sets to several values: the last one
// counts. What accelerate appends at every launch is mostly the same again.
func saidTwice(view View, file facts.EnvFile) []Finding {
	settings, _ := launch.ParseEnvFile(file)
	last := map[string]string{}
	for _, s := range settings {
		last[s.Name] = s.Value
	}
	var findings []Finding
	for _, s := range settings {
		if s.Value == last[s.Name] {
			continue
		}
		findings = append(findings, Finding{
			Nodes:   []string{view.Head.Name},
			Summary: fmt.Sprintf("%s sets %s more than once, and the last line wins", file.Path, s.Name),
			Got:     fmt.Sprintf("%s=%s after other values", s.Name, last[s.Name]),
			Want:    "one line a name",
			Remedy:  []fix.Command{fix.Here("grep -n '^%s=' %s   # keep the one that is meant", fix.Variable(s.Name), fix.Path(file.Path))},
		})
	}
	return findings // those of one name are alike, and folded
}
