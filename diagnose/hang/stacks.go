// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

// stack returns the Python stack of a rank, nil if it was not read.
func (m member) stack() *facts.Stack {
	at := slices.IndexFunc(m.node.Stacks, func(s facts.Stack) bool { return s.PID == m.PID })
	if at < 0 {
		return nil
	}
	return &m.node.Stacks[at]
}

// place is where the first thread of a rank is.
type place struct {
	line       string // the line of the training script or of its own modules, such as "train.py:17"
	collective string // the function of torch.distributed in which it waits, "" for none
}

// placeOf returns where a stack is. Its frames are "all_reduce (torch/distributed/distributed_c10d.py:2501)",
// the innermost first. py-spy shows files relative to the directories of sys.path. The line is the
// innermost one of the file that the rank was started with.
func placeOf(s *facts.Stack) (p place) {
	script := ""
	for _, frame := range slices.Backward(s.First()) {
		name, at, _ := strings.Cut(strings.TrimSpace(frame), " (")
		at = strings.TrimSuffix(at, ")")
		file, _, _ := strings.Cut(at, ":")
		switch {
		case strings.HasSuffix(file, "torch/distributed/distributed_c10d.py") && p.collective == "":
			p.collective = name
		case script == "" && !strings.HasPrefix(file, "runpy.py") && !strings.HasPrefix(file, "<"):
			script = file
			fallthrough
		case file == script:
			p.line = path.Base(at)
		}
	}
	return p
}

// stacked finds ranks whose Python code is elsewhere than that of the others.
func (j *job) stacked(does map[int]doing) (findings []checks.Finding) {
	places := map[place][]member{}
	var order []place
	inside := 0
	for _, m := range j.members {
		s := m.stack()
		if s == nil || len(s.First()) == 0 {
			return nil
		}
		p := placeOf(s)
		if places[p] == nil {
			order = append(order, p)
		}
		if places[p] = append(places[p], m); p.collective != "" {
			inside++
		}
	}
	if len(order) < 2 {
		return nil
	}
	said := func(p place) string {
		return "at " + cmp.Or(p.line, "an unknown line") + prefixed(", in ", p.collective)
	}
	each := strings.Join(text.Map(order, func(p place) string { return numbers(places[p]) + " " + said(p) }), "; ")
	if inside > 0 && inside < len(j.members) {
		for _, p := range order {
			if p.collective != "" {
				continue
			}
			verdict, what := checks.Fail, be(places[p])+" at "+cmp.Or(p.line, "an unknown line")
			d := does[slices.IndexFunc(j.members, func(m member) bool { return m.JobProcess == places[p][0].JobProcess })]
			if d.own == computes || d.own == works {
				verdict = checks.Unknown // long work, or a loop without an end
			}
			if d.own != waits && len(places[p]) == 1 {
				what += " and " + d.what
			}
			way := []fix.Command{fix.Note("Find out why it does not get beyond this line. With --stacks, preflight hang shows how each rank got to its line.")}
			if d.own == blocks {
				way = append(slices.Clone(d.way), way...)
			}
			f := j.blame(places[p], verdict, what, way)
			f.Got = each + prefixed("; ", d.on)
			findings = append(findings, f)
		}
		return findings
	}
	way := []fix.Command{fix.Note("Make all ranks call the same collectives in the same order. With --stacks, preflight hang shows how each rank got to its line.")}
	least := slices.MinFunc(order, func(a, b place) int { return cmp.Compare(len(places[a]), len(places[b])) })
	verdict, what := checks.Unknown, "another line of Python"
	if inside == len(j.members) {
		verdict, what = checks.Fail, "another collective"
	}
	f := j.blame(places[least], verdict, "", way)
	if f.Summary, f.Got = fmt.Sprintf("%s %s in %s than the others", numbers(places[least]), be(places[least]), what), each; 2*len(places[least]) >= len(j.members) {
		all := j.blame(j.members, verdict, "", nil)
		f.Summary, f.Nodes = "not all ranks are in the same collective", all.Nodes
		if inside < len(j.members) {
			f.Summary = "not all ranks are at the same line of Python"
		}
	}
	return []checks.Finding{f}
}

// be returns the verb for members.
func be(all []member) string {
	if len(all) == 1 {
		return "is"
	}
	return "are"
}
