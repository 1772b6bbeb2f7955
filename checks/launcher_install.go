package checks

import "preflight/facts"

// systemOf is what a machine says it runs, "" where nobody saw.
func systemOf(machine *facts.Node) string {
	if machine.Host == nil {
		return ""
	}
	return machine.Host.OS
}
