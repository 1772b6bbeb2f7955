package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

var policyInForce = Check{
	ID:         "policy",
	Title:      "every waiver of the policy is in force and needed, and all it names is in the hostfile",
	Severity:   Error,
	FromPolicy: true,
	Doc: "Looks at preflight.yaml itself. A waived finding is shown and does not count, until its date is over: then it counts again, and the waiver itself fails the run, so that " +
		"nobody launches on a promise that has run out. A waiver whose check found nothing that it covers is warned of, where everything that the check looks at was seen. So is a group, " +
		"an expectation or a waiver of which no node is in the hostfile: a name that was written otherwise there, or a rack that has gone, would switch it off without a word. Nodes that " +
		"--include, --exclude or --num_nodes leave out are in the hostfile all the same, and where there is none (-w, a Slurm job) nobody can tell. The check itself cannot be waived.",
	WouldSee: "the defect that was waived for a time, on a day when nobody remembers it",
	Run:      judgePolicy,
}

func judgePolicy(view View) []Finding {
	findings := nowhereListed(view)
	switch {
	case view.Policy.File == "" && len(view.Policy.Waivers) == 0:
		return skip(noPolicy)
	case len(view.Policy.Waivers) == 0 && findings == nil:
		return skip("the policy waives nothing")
	case len(view.Policy.Waivers) > 0 && view.Policy.Today == "":
		return append(findings, Finding{Verdict: Unknown, Summary: "the date of today is not known, so no waiver was applied"})
	}
	for _, w := range view.waiving.waivers {
		switch {
		case w.expired(view.Policy.Today):
			findings = append(findings, w.ended(view.Policy.Today))
		case w.taken == nil && view.waiving.told[w.Check] && w.concernsAny(view.All):
			findings = append(findings, w.unused())
		}
	}
	return findings
}

func (w Waiver) ended(today string) Finding {
	return Finding{
		At:      w.At,
		Summary: fmt.Sprintf("the waiver of %s ended on %s, and what it covered counts again", w.whose(), w.Until),
		Got:     w.said(),
		Want:    "a date that is not over (today is " + today + "), or no waiver",
		Fix:     []string{"repair what it covered, then take the waiver out of " + w.At, "or agree on a new date: until: in " + w.At},
	}
}

func (w Waiver) unused() Finding {
	return Finding{
		Verdict: Warn,
		At:      w.At,
		Summary: fmt.Sprintf("the waiver of %s covers nothing any more: %s finds nothing of it there", w.whose(), w.Check),
		Got:     w.said(),
		Fix:     []string{"take the waiver out of " + w.At + ", so that the defect is seen when it comes back"},
	}
}

// nowhereListed are the groups, expectations and waivers of which no node is in the
// hostfile, told once for each set of nodes: what names a group stands beside it.
func nowhereListed(view View) (findings []Finding) {
	if view.Launch.HostsFile == "" {
		return nil
	}
	listed := map[string]bool{}
	for _, host := range view.Launch.Hosts {
		listed[host.Name], listed[hostfile.Bare(host.Name)] = true, true
	}
	for _, name := range view.Launch.LeftOut {
		listed[name], listed[hostfile.Bare(name)] = true, true
	}
	at := map[string]int{}
	tell := func(nodes []string, what, place string) {
		if len(nodes) == 0 || slices.ContainsFunc(nodes, func(name string) bool { return listed[name] }) {
			return
		}
		names := hostfile.Fold(nodes)
		if i, told := at[names]; told {
			findings[i].Got += ", " + what + " (" + place + ")"
			return
		}
		at[names] = len(findings)
		findings = append(findings, Finding{
			Verdict:  Warn,
			At:       place,
			Summary:  "no node of the hostfile is " + names + ", so what the policy states of it holds nowhere",
			Got:      what + " (" + place + ")",
			Want:     "nodes as " + view.Launch.HostsFile + " names them",
			WouldSee: "nothing: what is held against no node is missed by none",
			Fix:      []string{"correct the nodes in " + place + ", or take out what has no nodes any more"},
		})
	}
	for _, g := range view.Policy.Groups {
		tell(g.Nodes, "the group "+g.Name, g.At)
	}
	for _, e := range view.Policy.Expect {
		tell(e.Nodes, "what is expected of "+e.Fact, e.At)
	}
	for _, w := range view.Policy.Waivers {
		tell(w.Nodes, "the waiver of "+w.Check, w.At)
	}
	return findings
}

func (w Waiver) concernsAny(nodes []facts.Node) bool {
	return slices.ContainsFunc(nodes, func(n facts.Node) bool { return w.covers(n.Name) })
}

// whose is what it waives and where.
func (w Waiver) whose() string {
	text := w.Check
	if w.Fact != "" {
		text += " for " + w.Fact
	}
	if len(w.Nodes) > 0 {
		text += " on " + hostfile.Fold(w.Nodes)
	}
	return text
}

// said is who gave it and why.
func (w Waiver) said() string {
	parts := []string{w.Reason}
	if w.Owner != "" {
		parts = append(parts, "owner "+w.Owner)
	}
	return strings.Join(append(parts, "stated at "+w.At), ", ")
}
