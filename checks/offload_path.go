package checks

import "preflight/facts"

var offloadPath = Check{
	ID:       "offload-path",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionDisk},
	OnHead:   false,
	Doc:      "placeholder",
	WouldSee: "placeholder",
	Run:      func(v View) []Finding { return skip("not judged yet") },
}
