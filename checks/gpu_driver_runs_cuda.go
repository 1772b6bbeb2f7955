package checks

import "preflight/facts"

var gpuDriverRunsCUDA = Check{
	ID:       "gpu-driver-runs-cuda",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
