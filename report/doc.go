// Package report renders a finished report: as text for a person with a launch
// waiting, as JSON for everything else, and for the places where a team looks: JUnit,
// Markdown, GitHub's annotations, Nagios, Prometheus, lists of hosts.
//
// The package refuses to decide anything: verdicts, order and wording of
// findings are done before it is called. What nodes said is escaped before it
// reaches a terminal, an XML document, a page or a label, as that medium wants it.
package report
