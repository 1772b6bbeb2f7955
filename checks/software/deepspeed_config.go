package software

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/dsconfig"
)

var DeepSpeedConfig = checks.Check{
	ID:       "deepspeed-config",
	Title:    "the DeepSpeed configuration is taken as it is meant",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Doc: "Reads the DeepSpeed configuration as the installed release does: keys it refuses, values of the wrong kind, batch sizes that do not " +
		"multiply to each other with the number of ranks, settings that exclude each other. What DeepSpeed reads over without a word, " +
		"a misspelt key for the most part, is a warning. \"auto\" is left to the trainer that fills it in.",
	WouldSee: "AssertionError or ValidationError in deepspeed.initialize, on every rank, after the model was loaded",
	Run:      judgeConfig,
}

func judgeConfig(view checks.View) []checks.Finding {
	config := view.Launch.Config
	if config == nil {
		if i := slices.IndexFunc(view.Launch.Files, func(f facts.LaunchFile) bool { return f.Role == facts.RoleConfig }); i >= 0 {
			named := view.Launch.Files[i]
			return []checks.Finding{checks.UnknownFor(view.Head, fmt.Sprintf("%s could not be read: %s", named.Path, whyUnread(view.Head, named)))}
		}
		return checks.Skipped("the command names no DeepSpeed configuration")
	}
	var findings []checks.Finding
	for _, problem := range config.Problems {
		f := checks.Finding{
			Nodes:    []string{view.Head.Name},
			Summary:  problem.Message,
			Got:      config.Path,
			WouldSee: problem.Original,
			Remedy:   []fix.Command{fix.Here("grep -n %s %s   # and change it there", fix.Operand(lastKey(problem)), fix.Path(config.Path))},
		}
		if problem.Key == "" {
			f.Remedy = []fix.Command{fix.Here("python3 -m json.tool %s", fix.Path(config.Path))}
		}
		if !problem.Fatal {
			f.Verdict, f.WouldSee = checks.Warn, "nothing: training goes on as if it were not there"
		}
		findings = append(findings, f)
	}
	return findings
}

// whyUnread is why there is no text of a configuration.
func whyUnread(head *facts.Node, named facts.LaunchFile) string {
	switch file := ranks.FileAt(head, named); {
	case file == nil && head.Missing[facts.SectionFiles] != "":
		return "files: " + compare.Shown(head.Missing[facts.SectionFiles])
	case file == nil:
		return "it was not looked at"
	case !file.Exists:
		return "it is not on the launching machine"
	case file.Problem != "":
		return file.Problem
	case file.Kind != "file":
		return "it is a " + file.Kind
	case file.Size == 0:
		return "it is empty"
	}
	return "it is too large, or no text"
}

// lastKey is the key itself, by which a problem is found in the file.
func lastKey(problem dsconfig.Problem) string {
	return problem.Key[strings.LastIndex(problem.Key, ".")+1:]
}
