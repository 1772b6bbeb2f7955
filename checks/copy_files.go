package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// copyTo copies a path of the launching machine to {hosts}; directories end in a slash.
func copyTo(view View, path string) string {
	return fmt.Sprintf("for host in {hosts}; do %s; done", rsync(view, path, "$host"))
}

// copyToAll copies a path of the launching machine to every node of a finding
// that is the launching machine's.
func copyToAll(view View, path string) string {
	var hosts []string
	for _, node := range view.Nodes {
		hosts = append(hosts, ShellWord(hostfile.Bare(node.Name)))
	}
	return fmt.Sprintf("for host in %s; do %s; done", strings.Join(hosts, " "), rsync(view, path, "$host"))
}

// copyFrom copies a path of a node to {node}.
func copyFrom(view View, node *facts.Node, path string) string {
	return remoteShell([]string{node.Name}, view.Launch.SSHPort) + " " + ShellWord(rsync(view, path, "{node}"))
}

// rsync copies a path to the same path elsewhere. -s keeps the other end's shell
// from reading a path that it would take for more.
func rsync(view View, path, host string) string {
	options := "-a"
	if !isPlain(path) {
		options = "-as"
	}
	if port := view.Launch.SSHPort; port != 0 {
		options += fmt.Sprintf(" -e 'ssh -p %d'", port)
	}
	word := ShellWord(path)
	return fmt.Sprintf("rsync %s %s %s:%s", options, word, host, word)
}
