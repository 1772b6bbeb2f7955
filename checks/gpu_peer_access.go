package checks

import "preflight/facts"

var gpuPeerAccess = Check{
	ID:       "gpu-peer-access",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc:      "Placeholder.",
	WouldSee: "placeholder",
	Run:      func(View) []Finding { return skip("not yet") },
}
