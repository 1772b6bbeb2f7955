// SPDX-License-Identifier: Apache-2.0

// Package html renders a finished report as one page that needs no other file and no network.
//
// The page admits no script, style or picture but its own. It never hides which checks fail.
package html

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/internal/text"
	"preflight/report"
)

//go:embed page
var pageFiles embed.FS

// The page contains everything that it needs: the style, the script and the data.
var (
	pageStyle  = assets("base.css", "findings.css", "tables.css", "drawings.css", "media.css")
	pageScript = "\"use strict\";\n" + assets("base.js", "theme.js", "copy.js", "store.js", "names.js", "counted.js", "matrix.js", "mesh.js", "tiles.js", "facts.js", "ready.js")
	pageHTML   = template.Must(template.New("").Funcs(template.FuncMap{
		"text":  text.Escape,
		"lower": strings.ToLower,
		"title": titleOf,
		"word":  report.Word,
	}).ParseFS(pageFiles, "page/*.html"))
)

// pagePolicy allows only the page's own style and script, by their hashes. Nothing is fetched, sent
// or framed, and no script can turn text into markup. The directives are defined in
// https://www.w3.org/TR/CSP3/ and https://www.w3.org/TR/trusted-types/.
var pagePolicy = strings.Join([]string{
	"default-src 'none'",
	"style-src " + hashSource(pageStyle),
	"script-src " + hashSource(pageScript),
	"base-uri 'none'",
	"form-action 'none'",
	"require-trusted-types-for 'script'",
	"trusted-types 'none'",
}, "; ")

// Write writes the report as one page that needs no other file and no network. The page has the
// verdict, a matrix of nodes and checks, the problems with their commands, and the differences. It
// also has the mesh, the rendezvous, the connections of the GPUs, and the facts of every node.
//
// The nodes' text never becomes markup: it is escaped, and invisible characters are written as
// escape sequences. The page's policy allows no script but the page's own. Without JavaScript the
// page lacks the matrix, the heat map and the facts.
func Write(out io.Writer, r checks.Report) error {
	s, err := newSheet(r)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	if err := pageHTML.ExecuteTemplate(buffered, "page.html", s); err != nil {
		return err
	}
	return buffered.Flush()
}

func assets(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic("report: " + err.Error()) // cannot happen: the file is embedded
		}
		all.Write(text)
	}
	return all.String()
}

// hashSource returns the hash by which a policy allows an inline style or script.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
}

// sheet is the data for page.html. The nodes' text is not escaped where the template escapes it
// (with text). It is already escaped where a function in this package put it into a sentence.
type sheet struct {
	checks.Report
	Style        template.CSS
	Script       template.JS
	Policy       string
	Sentence     string
	Summary      string
	Launched     string
	Tally        []tally
	Remarks      []string
	Problems     []problem
	Waivers      []waiver
	Differences  []difference
	Odd          []oddNodes
	MoreOdd      int
	Meshes       []mesh
	Meetings     []meeting
	Spoken       []printout // of the launchers and ranks of the rehearsal
	MoreSpoken   int
	Smoke        *smoke
	Machines     []machine
	MoreMachines int
	Links        []machine // how the ranks of some nodes communicate; only the names are set
	NotCovered   string
	Usable       string
	Data, Facts  template.JS
}

func newSheet(r checks.Report) (*sheet, error) {
	w := report.WordsOf(r)
	table, err := newFactTable(r.Nodes)
	if err != nil {
		return nil, err
	}
	s := &sheet{
		Report: r,
		Style:  template.CSS(pageStyle), Script: template.JS(pageScript), Policy: pagePolicy,
		Sentence: w.Conclusion(), Summary: text.Escape(w.Overview()), Remarks: text.Map(w.Remarks(), text.Escape), Launched: text.Escape(report.Launched(r)),
		Differences: differences(w, w.Unshown()),
		Meetings:    meetings(w, r.Nodes),
		Smoke:       newSmoke(r.Nodes),
		NotCovered:  w.NotCovered(),
		Usable:      w.Usable(),
	}
	if s.Data, err = inScript(newPageData(r)); err != nil {
		return nil, err
	}
	if s.Facts, err = inScript(table); err != nil {
		return nil, err
	}
	s.Problems = problemsOf(w)
	for i, one := range r.Waived {
		s.Waivers = append(s.Waivers, waiver{one, waiverAnchor(i), nodesOf(w, one.Finding)})
	}
	s.Tally = tallied(w)
	s.Odd, s.MoreOdd = oddOnes(w, w.Unshown())
	s.Meshes = meshes(w, r.Nodes)
	s.Spoken, s.MoreSpoken = rehearsal(r)
	s.Machines, s.MoreMachines = machines(w, r)
	s.Links = talking(w, r.Interconnect)
	return s, nil
}

// inScript returns data as JSON for a script element. The JSON contains no <, > or &, so it cannot
// end the element. It also contains no characters that could mislead a terminal or a person who
// reads the source.
func inScript(data any) (template.JS, error) {
	var text strings.Builder
	if err := report.Encoder(&text).Encode(data); err != nil {
		return "", err
	}
	return template.JS(strings.TrimSpace(text.String())), nil
}

// set holds nodes for a heading. The names are folded, and many nodes are counted.
type set struct {
	Names string // folded and escaped
	Count string // "3 of 8 nodes", "" if Names already says it
}

func setOf(w report.Words, names []string) set { return set{w.Nodes(names), w.Share(names)} }

type tally struct {
	Verdict checks.Verdict
	Words   string // "7 problems"
}

func tallied(w report.Words) (all []tally) {
	count := w.Counted()
	count[checks.Unknown] = len(w.Unknowns())
	for _, v := range []struct {
		verdict checks.Verdict
		noun    string
	}{{checks.Fail, "problem"}, {checks.Unknown, "unknown"}, {checks.Warn, "warning"}} {
		if n := count[v.verdict]; n > 0 {
			all = append(all, tally{v.verdict, text.Plural(n, v.noun)})
		}
	}
	return all
}

// problem is one problem with everything that the page says about it.
type problem struct {
	report.Problem
	Anchor string
	Nodes  set
	Open   bool // true for the first problem; the others are folded to their headings
	Steps  []step

	// Header and Rows hold the table of changes since a baseline. They are nil for other problems.
	Header []string
	Rows   [][]string
}

// step is one command. Cures is true if "Copy all" copies it.
type step struct {
	report.Step
	Cures bool
}

// findingAnchor, unknownAnchor and waiverAnchor return the anchors of the i-th finding, the i-th
// block of unknown checks and the i-th waived finding.
func findingAnchor(i int) string { return fmt.Sprintf("finding-%d", i+1) }

func unknownAnchor(i int) string { return fmt.Sprintf("unknown-%d", i+1) }

func waiverAnchor(i int) string { return fmt.Sprintf("waived-%d", i+1) }

// problemsOf returns the problems in the same order as the text report.
func problemsOf(w report.Words) (all []problem) {
	for i, p := range w.Problems(false) {
		one := problem{Problem: p, Anchor: findingAnchor(p.Index), Nodes: nodesOf(w, p.Finding), Open: i == 0}
		if p.Checks != nil {
			one.Anchor = unknownAnchor(p.Index)
		}
		if p.Changes != nil {
			one.Header, one.Rows = w.ChangeTable(p.Changes)
		}
		for _, s := range report.Steps(p.Finding) {
			one.Steps = append(one.Steps, step{s, len(report.Cure([]report.Step{s})) > 0})
		}
		all = append(all, one)
	}
	return all
}

// policyCheck is the check that covers the policy and not the nodes.
const policyCheck = "policy"

// nodesOf returns the nodes of a finding, and an empty set if the policy is at fault.
func nodesOf(w report.Words, f checks.Finding) set {
	if len(f.Nodes) == 0 && f.Check == policyCheck {
		return set{}
	}
	return setOf(w, f.Nodes)
}

type waiver struct {
	checks.Waived
	Anchor string
	Nodes  set
}

// titleOf returns what is true when a check passes, "" for a check that only another version of
// preflight has.
func titleOf(id string) string {
	check, _ := catalogue.Lookup(id)
	return check.Text().Title
}
