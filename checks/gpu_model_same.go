package checks

import "preflight/facts"

var gpuModelSame = Check{
	ID:       "gpu-model-same",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
