package checks

import (
	"slices"
	"strings"

	"preflight/facts"
)

// installFix installs a package by the distribution's own tool: its names with
// apt and with dnf.
func installFix(view View, apt string, dnf ...string) []string {
	withAPT := "sudo apt-get install -y " + apt
	withDNF := "sudo dnf install -y " + strings.Join(dnf, " ")
	host := view.Head.Host
	is := func(families ...string) bool {
		return host != nil && slices.ContainsFunc(families, func(name string) bool { return strings.Contains(host.OS, name) })
	}
	switch {
	case is("Debian", "Ubuntu"):
		return []string{withAPT}
	case is("Red Hat", "Rocky", "AlmaLinux", "CentOS", "Fedora", "Oracle", "Amazon"):
		return []string{withDNF}
	}
	return []string{withAPT, withDNF}
}

// installThere is the like on a node.
func installThere(view View, node *facts.Node, apt string, dnf ...string) []string {
	view.Head = node
	var fix []string
	for _, command := range installFix(view, apt, dnf...) {
		fix = append(fix, "{ssh} "+command)
	}
	return fix
}
