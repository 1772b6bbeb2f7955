package checks

import "preflight/facts"

var workdirPresent = Check{
	ID:       "workdir-present",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionFiles},
	OnHead:   false,
	Doc:      "placeholder",
	WouldSee: "placeholder",
	Run:      func(v View) []Finding { return skip("not judged yet") },
}
