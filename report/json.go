package report

import (
	"encoding/json"
	"fmt"
	"io"

	"preflight/checks"
)

// JSON writes a report in schema 1. Snapshots are the same file.
func JSON[Report checks.Report | checks.EndpointReport | Explained | Changed](w io.Writer, r Report) error {
	encoder := json.NewEncoder(jsonGuard{w})
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// Read reads a report that JSON or [Normalized] wrote.
func Read(in io.Reader) (checks.Report, error) {
	var r checks.Report
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return r, fmt.Errorf("not a preflight report: %w", err)
	}
	if r.Schema != checks.Schema {
		return r, fmt.Errorf("its schema is %d, this preflight reads schema %d", r.Schema, checks.Schema)
	}
	if r.Normalized {
		r.Fleet = checks.LastingFleet(r.Fleet, r.Launch)
	}
	return r, nil
}
