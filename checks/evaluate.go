package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Evaluate judges a fleet by the catalogue. It is pure: the same input gives
// the same report. Seconds, Version and Hostfile are left to the caller.
func Evaluate(catalogue []Check, fleet facts.Fleet, prediction launch.Prediction, policy Policy) Report {
	report := Report{
		Schema: Schema,
		Head:   fleet.Head,
		Nodes:  fleet.Nodes,
		Launch: prediction,
		Diff:   Diff(fleet.Nodes),
		Advice: Advice{Env: []AdvisedEnv{}, Args: []string{}},
	}
	position := map[string]int{}
	for i := range fleet.Nodes {
		position[fleet.Nodes[i].Name] = i
	}
	for _, check := range catalogue {
		outcome, findings := judge(check, fleet, prediction, policy)
		report.Checks = append(report.Checks, outcome)
		report.Findings = append(report.Findings, fold(findings, position)...)
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Compare(weight(a.Verdict), weight(b.Verdict))
	})
	report.Conclude(policy.Strict)
	return report
}

// Conclude sets the verdict and the exit code from the checks: 1 when
// something failed, 2 when something could not be told, 1 before 2.
func (r *Report) Conclude(strict bool) {
	r.Verdict, r.ExitCode = Pass, 0
	worst := Skip
	for _, outcome := range r.Checks {
		if weight(outcome.Verdict) < weight(worst) {
			worst = outcome.Verdict
		}
	}
	switch {
	case worst == Fail:
		r.Verdict, r.ExitCode = Fail, 1
	case worst == Warn && strict:
		r.Verdict, r.ExitCode = Fail, 1
	case worst == Unknown, worst == Skip, r.Interrupted:
		r.Verdict, r.ExitCode = Unknown, 2
	case worst == Warn:
		r.Verdict = Warn
	}
}

// weight orders verdicts, the one that matters most first. A warning outranks
// an unknown under --strict only, and there it has become a failure already.
func weight(v Verdict) int {
	return slices.Index([]Verdict{Fail, Unknown, Warn, Pass, Skip}, v)
}

// judge runs one check on the nodes that can be judged by it.
func judge(check Check, fleet facts.Fleet, prediction launch.Prediction, policy Policy) (Outcome, []Finding) {
	outcome := Outcome{Check: check.ID, Severity: check.Severity}
	if slices.Contains(policy.Skip, check.ID) || len(policy.Only) > 0 && !slices.Contains(policy.Only, check.ID) {
		outcome.Verdict, outcome.Reason = Skip, "switched off"
		return outcome, nil
	}
	view := View{All: fleet.Nodes, Launch: prediction, Policy: policy}
	var findings []Finding
	var unseen []string // nodes that were never reached: one line of their own says so
	if fleet.Head != nil && (!check.OnHead || missing(check, fleet.Head) == "") {
		view.Head = fleet.Head
	}
	if check.OnHead && view.Head == nil {
		outcome.Verdict, outcome.Reason = Unknown, "the launching machine was not looked at"
		if fleet.Head != nil {
			outcome.Reason = missing(check, fleet.Head)
		}
		return outcome, nil
	}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		switch reason := missing(check, node); {
		case check.OnHead, reason == "":
			view.Nodes = append(view.Nodes, node)
		case !node.Reached:
			unseen = append(unseen, node.Name)
		default:
			findings = append(findings, unknown(node, reason))
		}
	}
	if len(view.Nodes) > 0 || check.OnHead {
		findings = append(findings, check.Run(view)...)
	}
	outcome.Verdict = Pass
	if len(view.Nodes) == 0 && !check.OnHead {
		outcome.Verdict, outcome.Reason = Unknown, "no node could be looked at"
	}
	for i := range findings {
		finding := &findings[i]
		finding.Check = check.ID
		if finding.Verdict == "" {
			finding.Verdict = map[Severity]Verdict{Error: Fail, Warning: Warn}[check.Severity]
		}
		if finding.WouldSee == "" && (finding.Verdict == Fail || finding.Verdict == Warn) {
			finding.WouldSee = check.WouldSee
		}
		if finding.Verdict == Skip || weight(finding.Verdict) < weight(outcome.Verdict) {
			outcome.Verdict, outcome.Reason = finding.Verdict, ""
			if finding.Verdict == Skip || finding.Verdict == Unknown {
				outcome.Reason = finding.Summary
			}
		}
	}
	findings = slices.DeleteFunc(findings, func(f Finding) bool { return f.Verdict == Skip })
	if len(unseen) > 0 && weight(Unknown) < weight(outcome.Verdict) {
		outcome.Verdict, outcome.Reason = Unknown, hostfile.Fold(unseen)+" not reached"
	}
	return outcome, findings
}

// missing says why the node cannot be judged by the check, "" when it can.
func missing(check Check, node *facts.Node) string {
	for _, section := range check.Needs {
		if node.Has(section) {
			continue
		}
		if reason := node.Missing[section]; reason != "" {
			return fmt.Sprintf("%s: %s", section, reason)
		}
		return fmt.Sprintf("%s: not looked at", section)
	}
	return ""
}

// fold joins findings that say the same of different nodes, and writes the
// nodes into their fixes.
func fold(findings []Finding, position map[string]int) []Finding {
	var folded []Finding
	at := map[string]int{}
	for _, f := range findings {
		key := strings.Join(append([]string{string(f.Verdict), f.Summary, f.Got, f.Want, f.WouldSee}, f.Fix...), "\x00")
		if i, seen := at[key]; seen {
			folded[i].Nodes = append(folded[i].Nodes, f.Nodes...)
			continue
		}
		at[key] = len(folded)
		f.Nodes = slices.Clone(f.Nodes)
		folded = append(folded, f)
	}
	for i := range folded {
		f := &folded[i]
		slices.SortStableFunc(f.Nodes, func(a, b string) int { return cmp.Compare(position[a], position[b]) })
		f.Nodes = slices.Compact(f.Nodes)
		f.Fix = addressed(f.Fix, f.Nodes)
	}
	return folded
}

// addressed fills {ssh}, {nodes} and {node} in fixes.
func addressed(fixes, nodes []string) []string {
	if len(nodes) == 0 {
		return fixes
	}
	set := hostfile.Fold(nodes)
	ssh := "ssh " + shellWord(nodes[0])
	if len(nodes) > 1 {
		ssh = "pdsh -R ssh -w " + shellWord(set)
	}
	fill := strings.NewReplacer("{ssh}", ssh, "{nodes}", set, "{node}", nodes[0])
	var out []string
	for _, fix := range fixes {
		out = append(out, fill.Replace(fix))
	}
	return out
}

// shellWord quotes a word for a person to paste into a POSIX shell.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
