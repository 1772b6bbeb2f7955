package report

import (
	"encoding/json"
	"io"

	"preflight/checks"
)

// JSON writes a report in schema 1. Snapshots are the same file.
func JSON[Report checks.Report | checks.EndpointReport | Explained | Changed](w io.Writer, r Report) error {
	encoder := json.NewEncoder(jsonGuard{w})
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}
