package checks

import "preflight/facts"

var gpuDriverSame = Check{
	ID:       "gpu-driver-same",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
