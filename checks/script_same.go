package checks

import "preflight/facts"

var scriptSame = Check{
	ID:       "script-same",
	Title:    "placeholder",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionFiles},
	OnHead:   false,
	Doc:      "placeholder",
	WouldSee: "placeholder",
	Run:      func(v View) []Finding { return skip("not judged yet") },
}
