// Package report renders a finished report: as text for a person with a launch waiting and
// as JSON for everything else. What all formats say in the same words is here too; the
// rooms html and ci draw it for browsers and for the programs of a team, and formats lists
// them all.
//
// The package refuses to decide anything: verdicts, order and wording of
// findings are done before it is called. What nodes said is escaped before it
// reaches a terminal, an XML document, a page or a label, as that medium wants it.
package report
