package checks

import "preflight/facts"

var slotsFit = Check{
	ID:       "slots-fit",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionGPU},
	OnHead:   false,
	Doc:      "placeholder",
	WouldSee: "placeholder",
	Run:      func(v View) []Finding { return skip("not judged yet") },
}
