package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"preflight/checks"
	"preflight/checks/store"
	"preflight/facts"
)

// EndpointText writes for a person who is at an endpoint, seen from where, and
// what to do about it.
func EndpointText(w io.Writer, r store.Report, style Style) error {
	p := &page{Words: Words{fleet: len(r.Nodes)}, style: style}
	text := map[checks.Verdict]string{
		checks.Pass:    "a store answers at ",
		checks.Warn:    "a store answers, perhaps not the same for all, at ",
		checks.Fail:    "this rendezvous cannot work: ",
		checks.Unknown: "cannot tell for all nodes: ",
	}[r.Verdict]
	p.line("%s  %s%s", p.colored(r.Verdict, Word(r.Verdict)), text, Escape(r.Endpoint))
	p.line("")
	p.list("from here", sighted(r.Here))
	var seen []alike
	for _, node := range r.Nodes {
		if node.Seen != nil {
			seen = add(seen, sighted(*node.Seen), node.Name)
		}
	}
	for _, one := range seen {
		p.list(p.Nodes(one.nodes), one.text)
	}
	for _, f := range r.Findings {
		p.finding(f)
	}
	return p.writeTo(w)
}

// sighted says in one line what was found and by which way.
func sighted(e facts.Endpoint) string {
	way := ""
	switch {
	case e.Address == "" && len(e.Addresses) > 0:
		way = " at " + strings.Join(e.Addresses, ", ")
	case e.Address != "":
		way = fmt.Sprintf(" at %s by %s", e.Address, cmp.Or(e.Interface, "an unknown interface"))
	}
	switch {
	case e.Store != "":
		return fmt.Sprintf("a store of torch %s with %s%s", e.Store, Plural(int(e.Keys), "key"), way)
	case e.Greeting != "":
		return fmt.Sprintf("%q%s", e.Greeting, way)
	case e.Failed == facts.HopResolve:
		return "does not resolve: " + e.Error
	}
	return fmt.Sprintf("%s (%s)%s", cmp.Or(string(e.Outcome), "no store"), e.Error, way)
}
