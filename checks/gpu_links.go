package checks

import "preflight/facts"

var gpuLinks = Check{
	ID:       "gpu-links",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
