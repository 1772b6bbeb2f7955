package checks

import "preflight/facts"

var gpuDriverLoads = Check{
	ID:       "gpu-driver-loads",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
