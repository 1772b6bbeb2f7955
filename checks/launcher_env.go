package checks

import "preflight/facts"

var launcherEnv = Check{
	ID:       "launcher-env",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Doc:      "placeholder",
	WouldSee: "placeholder",
	Run:      func(v View) []Finding { return skip("not judged yet") },
}
