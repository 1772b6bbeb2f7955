// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/explain"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Explained holds what the logs show. With a hostfile it also has the results of the checks that
// the causes name.
type Explained struct {
	explain.Report
	ExitCode int            `json:"exit_code"` // the graver of both exit codes; 1 is graver than 2
	Version  string         `json:"version"`
	Run      *checks.Report `json:"run,omitempty"`
}

// Explanation writes for a person what logs show. It begins with the root cause, the log lines, the
// fix, and the check that finds the cause before a launch. Then it lists the consequences, the
// process that failed first, harmless messages, and what NCCL used.
func Explanation(w io.Writer, r explain.Report, style Style) error {
	p := &page{style: style}
	p.explanationHead(r)
	for _, f := range r.Causes {
		p.cause(f)
	}
	if r.Program != nil {
		p.program(*r.Program)
	}
	if r.Unexplained != nil {
		p.line("\n%s  these lines look like a failure, but preflight does not know what they mean", p.colored(checks.Unknown, Word(checks.Unknown)))
		p.evidence(r.Unexplained.Evidence, r.Unexplained.Count)
	}
	if !style.Quiet {
		p.line("")
		p.asides("followed", r.Consequences)
		p.timeline(r.Timeline)
		p.asides("harmless", r.Noise)
		p.networks(r.Network)
	}
	_, err := io.WriteString(w, unobeyed(strings.TrimRight(p.out.String(), "\n")+"\n"))
	return err
}

// Now is the line between what a log shows and the results of the checks for it.
const Now = "what the checks for these causes find now:"

func (p *page) explanationHead(r explain.Report) {
	verdict := []checks.Verdict{checks.Pass, checks.Fail, checks.Unknown}[r.ExitCode]
	var headline string
	switch {
	case len(r.Causes) > 0:
		headline = r.Causes[0].Title
		if where := whereabouts(r.Causes[0]); where != "" && r.Causes[0].Hearsay {
			headline += ", says " + where
		} else if where != "" {
			headline += ": " + where
		}
		if more := len(r.Causes) - 1; more > 0 {
			headline += ", and " + text.Plural(more, "other cause")
		}
	case r.Program != nil:
		headline = cmp.Or(r.Program.Launcher, "the program") + " failed" + on(*r.Program) + "; nothing in the log points to the cluster"
	case len(r.Unread) > 0:
		headline = unread(r.Unread)
	case r.Lines == 0:
		headline = "the log is empty"
		if r.Files > 1 {
			headline = "all logs are empty"
		}
	case r.Unexplained != nil && len(r.Consequences) == 0:
		headline = "something failed" + on(*r.Unexplained) + ", but preflight does not know the messages: they are below"
	case verdict == checks.Unknown && len(r.Consequences) == 0:
		headline = "no known failure found, and no sign that the job ran"
	case verdict == checks.Unknown:
		headline = "ranks failed, but the log does not say why: give the logs of all ranks or nodes"
	default:
		headline = "the job ran, and nothing in the log looks like a failure"
	}
	p.line("%s  %s", p.colored(verdict, Word(verdict)), text.Escape(headline))
	read := text.Plural(r.Files, "file") + ", " + text.Plural(r.Lines, "line")
	if r.Nameless > 0 {
		read += fmt.Sprintf(", %d of them counted without their rank or node: give the log of one rank or node to see it", r.Nameless)
	}
	if n := len(r.Empty); n > 0 && n < r.Files {
		read += ", empty: " + text.Some(r.Empty, shownEmpty)
	}
	p.line("%s", p.faint(text.Escape(read)))
}

// shownEmpty is the maximum number of empty logs that are named.
const shownEmpty = 4

// unread says how many logs could not be read, or not to their end.
func unread(all []explain.Unread) string {
	cut := slices.DeleteFunc(slices.Clone(all), func(log explain.Unread) bool { return log.Whole })
	var texts []string
	if n := len(all) - len(cut); n > 0 {
		texts = append(texts, text.Plural(n, "log")+" could not be read")
	}
	if n := len(cut); n > 0 {
		texts = append(texts, text.Plural(n, "log")+" could not be read to the end")
	}
	return strings.Join(texts, ", ")
}

// on returns where a finding happened as the end of a sentence, such as " on w2".
func on(f explain.Finding) string {
	if where := whereabouts(f); where != "" {
		return " on " + where
	}
	return ""
}

func (p *page) program(f explain.Finding) {
	kind, words := "program error", "This error came first. It is not a known error of the network, the driver or a launcher: look for the cause in your program."
	if f.Launcher != "" {
		kind, words = "launcher error", "This error came first. "+f.Launcher+" raised it, not the training program. It is not a known error of the network or the driver: check "+f.Launcher+"'s arguments and its installation on the node."
	}
	p.line("\n%s  %s%s", p.colored(checks.Fail, Word(checks.Fail)), kind, text.Escape(on(f)))
	p.wrapped("      ", words)
	if f.Summary != f.Evidence[0].Text {
		p.wrapped("      ", f.Summary)
	}
	p.evidence(f.Evidence, f.Count)
}

func (p *page) cause(f explain.Finding) {
	heading := f.Cause
	if where := whereabouts(f); where != "" {
		heading += "  " + where
	}
	p.line("\n%s  %s", p.colored(checks.Fail, Word(checks.Fail)), text.Escape(heading))
	p.wrapped("      ", f.Summary)
	p.evidence(f.Evidence, f.Count)
	p.commands("fix", f.Fix)
	p.commands("where", f.Where)
	if f.Command != "" {
		p.commands("before", []string{f.Command + "   # finds this before the launch"})
	}
}

func (p *page) evidence(lines []explain.Evidence, count int) {
	for i, e := range lines {
		p.labelled(firstOnly(i, "read"), p.faint(text.Escape(place(e))))
		for _, said := range append([]string{e.Text}, e.More...) {
			for _, text := range p.split(said, valueColumn) {
				p.labelled("", text)
			}
		}
	}
	if count > len(lines) {
		p.labelled("", p.faint(fmt.Sprintf("and %s like these", text.Plural(count-len(lines), "more line"))))
	}
}

// place returns the file and line of a log message, and the node and rank that wrote it.
func place(e explain.Evidence) string {
	text := fmt.Sprintf("%s:%d", e.File, e.Line)
	if e.Node != "" {
		text += "  " + e.Node
	}
	if e.Rank != "" {
		text += "  rank " + e.Rank
	}
	if e.Time != "" {
		text += "  " + e.Time
	}
	return text
}

// whereabouts returns the nodes of a finding, or its ranks if no node is known. For a single rank
// it returns both.
func whereabouts(f explain.Finding) string {
	switch {
	case len(f.Nodes) == 1 && len(f.Ranks) == 1:
		return fmt.Sprintf("%s, rank %s", f.Nodes[0], f.Ranks[0])
	case len(f.Nodes) > 0:
		return hostfile.Fold(f.Nodes)
	case len(f.Ranks) > 0:
		return "rank " + hostfile.Fold(f.Ranks)
	}
	return ""
}

func (p *page) asides(label string, findings []explain.Finding) {
	p.list(label, text.Map(findings, func(f explain.Finding) string {
		line := f.Summary
		if f.Cause != "" {
			line = f.Cause + ": " + line
		}
		return fmt.Sprintf("%s (%s, %s)", line, text.Plural(f.Count, "line"), place(f.Evidence[0]))
	})...)
}

const shownDeaths = 8

func (p *page) timeline(deaths []explain.Death) {
	var texts []string
	for i, d := range deaths {
		if i == shownDeaths && !p.style.Verbose {
			texts = append(texts, fmt.Sprintf("and %d more (-v lists them)", len(deaths)-i))
			break
		}
		who := d.Node
		if d.Rank != "" {
			who = strings.TrimSpace(who + " rank " + d.Rank)
		}
		texts = append(texts, fmt.Sprintf("%s  %s  %s (%s:%d)", d.Time, who, cmp.Or(d.Cause, "program error"), d.File, d.Line))
	}
	p.list("first failed", texts...)
}

// networks prints what NCCL chose and what is unusual about that choice. Nodes with the same choice
// share one line.
func (p *page) networks(all []explain.Network) {
	p.remarks("nccl", all, func(n explain.Network) []string {
		if text := n.String(); text != "" {
			return []string{text}
		}
		return nil
	})
	p.remarks("slow", all, func(n explain.Network) []string { return n.Slow })
}

// remarks prints sentences about nodes. A sentence about several nodes is printed once.
func (p *page) remarks(label string, all []explain.Network, of func(explain.Network) []string) {
	var groups []alike
	for _, n := range all {
		for _, text := range of(n) {
			groups = add(groups, text, n.Node)
		}
	}
	var texts []string
	for _, g := range groups {
		known := slices.DeleteFunc(g.nodes, func(name string) bool { return name == "" })
		if len(known) > 0 {
			g.text = hostfile.Fold(known) + ": " + g.text
		}
		texts = append(texts, g.text)
	}
	p.list(label, texts...)
}
