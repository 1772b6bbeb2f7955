// Package report renders a finished report: as text for a person with a launch
// waiting, and as JSON for everything else.
//
// The package refuses to decide anything: verdicts, order and wording of
// findings are done before it is called. What nodes said is escaped before it
// reaches a terminal.
package report
