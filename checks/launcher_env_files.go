package checks

import (
	"fmt"
	"strings"

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
	var numbers, deletions []string
	for _, problem := range problems {
		if problem.Line > 0 {
			numbers = append(numbers, fmt.Sprint(problem.Line))
			deletions = append(deletions, fmt.Sprintf("%dd", problem.Line))
		}
	}
	if numbers == nil {
		f.Verdict, f.Fix = Fail, []string{"chmod u+r " + ShellWord(file.Path)}
		return f
	}
	f.Got = fmt.Sprintf("line %s of %s", strings.Join(numbers, ", "), file.Path)
	f.Fix = []string{fmt.Sprintf("sed -i '%s' %s", strings.Join(deletions, ";"), ShellWord(file.Path))}
	switch comment := strings.HasPrefix(strings.TrimSpace(file.Lines[first.Line-1]), "#"); {
	case first.DeepSpeed != "":
		f.Verdict = Fail
	case comment:
		f.Verdict = Fail
		f.WouldSee = "nothing: no rank starts, and the launch ends with exit code 0"
	default:
		f.Fix = []string{fmt.Sprintf("sed -n '%s' %s   # correct these names", strings.ReplaceAll(strings.Join(deletions, ";"), "d", "p"), ShellWord(file.Path))}
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
			Fix:     []string{fmt.Sprintf("grep -n '^%s=' %s   # keep the one that is meant", s.Name, ShellWord(file.Path))},
		})
	}
	return findings // those of one name are alike, and folded
}
