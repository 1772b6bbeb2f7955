// SPDX-License-Identifier: Apache-2.0

package software

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// lacksRequirements returns a finding for a node that has a package but lacks modules that the
// package imports.
func lacksRequirements(view checks.View, node *facts.Node, of string) []checks.Finding {
	version := node.Python.Packages[of]
	var missing, late []launch.Requirement
	for _, r := range launch.Requirements {
		switch {
		case r.Of != of || version == "" || !hostfile.Within(version, r.Since, r.Until) || !slices.Contains(node.Python.Unfound, r.Module):
		case r.Late != "":
			late = append(late, r)
		default:
			missing = append(missing, r)
		}
	}
	lacks := cmp.Or(len(missing), len(late)) // the launch ends before it imports the late modules
	if lacks == 0 {
		return nil
	}
	var modules, distributions []string
	for _, r := range append(missing, late...) {
		modules, distributions = append(modules, r.Module), append(distributions, r.Distribution)
	}
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Verdict:  checks.Fail,
		Summary:  fmt.Sprintf("%s cannot be imported without %s", of, strings.Join(distributions[:lacks], ", ")),
		Got:      of + " " + version,
		WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", modules[0]),
		Remedy:   []fix.Command{remedy.Pip(view).Run("install %s", fix.List[fix.Name](" ", distributions))},
	}
	if missing == nil {
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("%s needs %s, which it imports %s", of, strings.Join(distributions, ", "), late[0].Late)
		f.WouldSee += ", unless the script creates none"
	}
	return []checks.Finding{f}
}
