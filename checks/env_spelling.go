package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/launch"
)

// wrongNames warns of names that no library reads: known dead ones, misspelt
// ones, and those that torch 2.2 renamed.
func wrongNames(r ranks) []Finding {
	torchIsNew := r.node.Python != nil && r.node.Python.Torch != nil && !launch.Before(r.node.Python.Torch.Version, "2.2")
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(r.vars)) {
		instead, isDead := deadNames[name]
		switch {
		case isDead:
			f := r.finding(name, "no library reads "+name)
			f.Want = instead
			findings = append(findings, f)
		case renamedNames[name] && torchIsNew:
			f := r.finding(name, fmt.Sprintf("torch 2.2 renamed %s, and reads the old name for the time being", name))
			f.Want = "TORCH_" + name
			f.WouldSee = fmt.Sprintf("Environment variable %s is deprecated; use TORCH_%s instead", name, name)
			findings = append(findings, f)
		case r.fleet.meant[name] != "":
			f := r.finding(name, fmt.Sprintf("no library reads %s: a slip for %s", name, r.fleet.meant[name]))
			f.Want = r.fleet.meant[name]
			findings = append(findings, f)
		}
	}
	return findings
}

// slips finds the names that are one for another, once for all nodes.
func slips(all []ranks) map[string]string {
	meant := map[string]string{}
	for _, r := range all {
		for name := range r.vars {
			isKnown := ncclNumbers[name] || ncclTexts[name] || torchNames[name] || renamedNames[name]
			if _, seen := meant[name]; !seen && !isKnown {
				meant[name] = nearestName(name)
			}
		}
	}
	return meant
}

// nearestName is the known name a misspelt one is meant for, "" when none is
// near. Plugins read names of their own, so being unknown alone means nothing.
func nearestName(name string) string {
	const slips = 2
	var namesakes []string
	for _, table := range []map[string]bool{ncclNumbers, ncclTexts, torchNames} {
		for _, known := range slices.Sorted(maps.Keys(table)) {
			if prefixOf(known) == prefixOf(name) {
				namesakes = append(namesakes, known)
			}
		}
	}
	return Nearest(name, namesakes, slips)
}

func prefixOf(name string) string {
	prefix, _, _ := strings.Cut(name, "_")
	return prefix
}

// wrongNumbers warns of texts where NCCL reads a number: they count as 0, so
// that NCCL_IB_DISABLE=true disables nothing.
func wrongNumbers(r ranks) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(r.vars)) {
		if _, isNumber := launch.Number(r.value(name)); !ncclNumbers[name] || isNumber {
			continue
		}
		f := r.finding(name, fmt.Sprintf("NCCL reads a number from %s, and this text counts as 0", name))
		f.Want = "a number, such as 1"
		findings = append(findings, f)
	}
	return findings
}
