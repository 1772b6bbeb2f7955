package checks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// mostToldChanges is how many facts of one cause are told.
const mostToldChanges = 8

// finding tells of at least one change on a node, the worst first and with its weight; that
// the machine is another one comes before all. A waiver has to cover all of those that weigh
// most. Where not all are told the fix says what lists them.
func (b baseline) finding(node *facts.Node, changes []Change) Finding {
	rank := func(c Change) int {
		switch {
		case isAnotherMachine(c):
			return 0
		case breaks(node, c):
			return 1
		}
		return 2
	}
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	f := Finding{Verdict: Warn, Nodes: []string{node.Name}, Fact: changes[0].Fact}
	for _, c := range changes {
		if breaks(node, c) {
			f.Verdict = Fail
		}
		if rank(c) < 2 || rank(changes[0]) == 2 {
			f.Facts = append(f.Facts, c.Fact)
		}
	}
	var got, want []string
	for _, c := range FoldChanges(changes) {
		now, then := inWords(c)
		got, want = append(got, c.Fact+" "+now), append(want, c.Fact+" "+then)
	}
	if len(got) > mostToldChanges {
		f.Remedy = []fix.Command{fix.Here("preflight diff %s run.json   # all of it, where run.json is what -o json=run.json writes", fix.Path(b.File))}
	}
	f.Got, f.Want = shortList(got), shortList(want)
	return f
}

func shortList(parts []string) string {
	if more := len(parts) - mostToldChanges; more > 0 {
		parts = append(slices.Clone(parts[:mostToldChanges]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// inWords is a change's value now and before: sizes in the unit that tells them apart, of
// lists what the other one lacks.
func inWords(c Change) (now, then string) {
	var is, was []string
	if json.Unmarshal(c.After, &is) == nil && json.Unmarshal(c.Before, &was) == nil && len(is)*len(was) > 0 {
		return beyond(is, was), beyond(was, is)
	}
	if now, then, are := unlikeCells(c); are {
		return now, then
	}
	after, errAfter := strconv.ParseInt(string(c.After), 10, 64)
	before, errBefore := strconv.ParseInt(string(c.Before), 10, 64)
	if facts.Unit(c.Fact) == "bytes" && errAfter == nil && errBefore == nil && after >= 0 && before >= 0 {
		return apart(after, before)
	}
	return plainValue(c.After), plainValue(c.Before)
}

// unlikeCells is of two tables of one size, as what joins any two GPUs, those cells that
// are not the same, "[3][4] NV16", and once what is so both ways: a table is too long to be
// compared by eye.
func unlikeCells(c Change) (now, then string, are bool) {
	var is, was [][]string
	if json.Unmarshal(c.After, &is) != nil || json.Unmarshal(c.Before, &was) != nil || len(is) != len(was) {
		return "", "", false
	}
	var nows, thens []string
	for i := range is {
		if len(is[i]) != len(was[i]) {
			return "", "", false
		}
		for j := range is[i] {
			mirrored := j < i && i < len(is[j]) && is[j][i] == is[i][j] && was[j][i] == was[i][j]
			if is[i][j] != was[i][j] && !mirrored {
				at := fmt.Sprintf("[%d][%d] ", i, j)
				nows, thens = append(nows, at+is[i][j]), append(thens, at+was[i][j])
			}
		}
	}
	return shortList(nows), shortList(thens), nows != nil
}

// beyond is what a list has that another has not.
func beyond(list, other []string) string {
	extra := slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return slices.Contains(other, entry) })
	switch {
	case len(extra) > 0:
		return "with " + strings.Join(extra, ", ")
	case len(list) < len(other):
		return "without it"
	}
	return "in the order " + strings.Join(list, ", ")
}

// plainValue is JSON as a person reads it: text without its quotation marks, a list of
// texts without its brackets, and an empty text for what it is.
func plainValue(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return cmp.Or(unquoted(string(raw)), absentWord)
}
