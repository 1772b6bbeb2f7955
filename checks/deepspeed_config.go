package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var deepspeedConfig = Check{
	ID:       "deepspeed-config",
	Title:    "the DeepSpeed configuration is taken as it is meant",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Doc: "Reads the DeepSpeed configuration as the installed release does: keys it refuses, values of the wrong kind, batch sizes that do not " +
		"multiply to each other with the number of ranks, settings that exclude each other. What DeepSpeed reads over without a word, " +
		"a misspelt key for the most part, is a warning. \"auto\" is left to the trainer that fills it in.",
	WouldSee: "AssertionError or ValidationError in deepspeed.initialize, on every rank, after the model was loaded",
	Run:      judgeConfig,
}

func judgeConfig(view View) []Finding {
	config := view.Launch.Config
	if config == nil {
		return skip("the command names no DeepSpeed configuration that could be read")
	}
	var findings []Finding
	for _, problem := range config.Problems {
		f := Finding{
			Nodes:    []string{view.Head.Name},
			Summary:  problem.Message,
			Got:      config.Path,
			WouldSee: problem.Said,
			Fix:      []string{fmt.Sprintf("grep -n %s %s   # and change it there", ShellWord(lastKey(problem)), ShellWord(config.Path))},
		}
		if problem.Key == "" {
			f.Fix = []string{"python3 -m json.tool " + ShellWord(config.Path)}
		}
		if !problem.Fatal {
			f.Verdict, f.WouldSee = Warn, "nothing: training goes on as if it were not there"
		}
		findings = append(findings, f)
	}
	return findings
}

// lastKey is the key itself, by which a problem is found in the file.
func lastKey(problem launch.ConfigProblem) string {
	return problem.Key[strings.LastIndex(problem.Key, ".")+1:]
}
