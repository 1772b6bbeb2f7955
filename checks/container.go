package checks

import "preflight/facts"

// containerOf is the kind of container a node is, as facts.Host spells it, ""
// for a machine of its own and where that was not seen.
func containerOf(node *facts.Node) string {
	if node.Host == nil {
		return ""
	}
	return node.Host.Container
}
