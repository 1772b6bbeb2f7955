package checks

import "preflight/facts"

var gpuIdle = Check{
	ID:       "gpu-idle",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
