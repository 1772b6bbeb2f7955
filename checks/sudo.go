package checks

import (
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
)

// onConsole marks a fix that is typed at the node, not on the launching machine.
var onConsole = regexp.MustCompile(`# .*\b(console|there)\b`)

// withoutSudo is for machines where we are root: containers often have no sudo.
var withoutSudo = strings.NewReplacer("sudo ", "", "sudoedit ", "vi ")

// asRoot reports whether a fix, its placeholders still in it, runs where we are
// root: on all the nodes it is for, or on the launching machine.
func (r roster) asRoot(fix string, nodes []string) bool {
	if strings.Contains(fix, "{ssh}") || onConsole.MatchString(fix) {
		return !slices.ContainsFunc(nodes, func(node string) bool { return !r.root[node] })
	}
	return r.headRoot
}

// isRoot is whether we are root on a machine: by what it says itself, and where
// nothing was seen of it by the account we log in to.
func isRoot(node *facts.Node) bool {
	if node.Host != nil {
		return node.Host.User == "root"
	}
	return node.SSH != nil && node.SSH.User == "root"
}
