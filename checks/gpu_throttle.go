package checks

import "preflight/facts"

var gpuThrottle = Check{
	ID:       "gpu-throttle",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
