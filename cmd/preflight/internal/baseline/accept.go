// SPDX-License-Identifier: Apache-2.0

// Package baseline takes single changes into a saved run.
//
// It refuses to touch anything else of the file, and to judge whether a change was meant.
package baseline

import (
	"bytes"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/edit"
	"preflight/facts"
	"preflight/report"
)

// Accepted is the text of a saved run in which some changes have happened that a later run
// shows. Every other byte is as it was. Where a fact came or went with what holds it (torch's
// version with torch), that comes or goes as a whole.
func Accepted(saved []byte, later checks.Report, changes []checks.Change) ([]byte, error) {
	was, err := report.Read(bytes.NewReader(saved))
	if err != nil {
		return nil, err
	}
	render := report.JSON[checks.Report]
	if was.Normalized {
		render = report.Normalized
	}
	var now bytes.Buffer
	if err := render(&now, later); err != nil {
		return nil, err
	}
	begins, ends := bytes.IndexByte(saved, '{'), bytes.LastIndexByte(saved, '}')+1
	before, after := edit.Parse(saved), edit.Parse(now.Bytes())
	names := agreement.FormerNames(was.Fleet, later.Fleet)
	for _, c := range changes {
		accept(before, after, c, names)
	}
	return append(append(bytes.Clone(saved[:begins]), before.Text()...), saved[ends:]...), nil
}

// accept makes one change of what an earlier run has, in which nodes may have other names.
func accept(before, after *edit.Value, c checks.Change, names map[string]string) {
	was, is := within(before, "nodes"), within(after, "nodes")
	if c.Fact == "" {
		was.Take(c.Node, "name", is)
		return
	}
	from, to := at(was, "name", names[c.Node]), at(is, "name", c.Node)
	if to == nil {
		from, to = within(before, "head"), within(after, "head")
	}
	if c.Fact == "name" {
		from.Take("name", "", to)
		names[c.Node] = c.Node
		return
	}
	acceptFact(within(from, "facts"), within(to, "facts"), "", c.Fact)
}

// keyed are the lists whose entries have names.
var keyed = facts.Keys()

// acceptFact goes down to a fact as far as both have what holds it. Names may have dots in
// them: the longest that fits is meant.
func acceptFact(was, is *edit.Value, path, fact string) {
	by, name := keyed[path], ""
	for _, one := range append(was.Names(by), is.Names(by)...) {
		if (fact == one || strings.HasPrefix(fact, one+".")) && len(one) > len(name) {
			name = one
		}
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(fact, name), ".")
	from, to := at(was, by, name), at(is, by, name)
	if rest == "" || from == nil || to == nil || !from.Holds() || !to.Holds() {
		was.Take(name, by, is)
		return
	}
	if by != "" {
		name = "*"
	}
	acceptFact(from, to, strings.TrimPrefix(path+"."+name, "."), rest)
}

func within(v *edit.Value, key string) *edit.Value { return at(v, "", key) }

// at is an entry's value, nil where there is none.
func at(v *edit.Value, by, name string) *edit.Value {
	if i := v.Of(name, by); i >= 0 {
		return v.Entries[i].Value
	}
	return nil
}
