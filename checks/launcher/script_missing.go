package launcher

import (
	"fmt"
	"path"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// lackFile is the nodes that do not have a file, but for those that have not
// even the directory, which explains it.
func lackFile(view checks.View, nodes []*facts.Node, named facts.LaunchFile, explained map[string]bool) []checks.Finding {
	var lacking []*facts.Node
	have := 0
	for _, node := range nodes {
		switch file := ranks.FileAt(node, named); {
		case file == nil:
		case file.Exists:
			have++
		case !explained[node.Name]:
			lacking = append(lacking, node)
		}
	}
	onHead := isThere(view.Head, named)
	_, headIsNode := ranks.HeadNode(view)
	if named.Role == facts.RoleArgument && (!onHead || headIsNode) && 2*have <= len(nodes) {
		return nil // what is yet to be written, or was by rank 0
	}
	var findings []checks.Finding
	for _, node := range lacking {
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  "there is no " + named.Path,
			Got:      ranks.FileAt(node, named).Problem,
			Want:     wantFile(view, have, onHead),
			WouldSee: missingError(view, named),
			Remedy:   bringFile(view, nodes, named),
		}
		if named.Role == facts.RoleArgument {
			f.Verdict = checks.Warn
		}
		findings = append(findings, ranks.OfMachine(view, node, f))
	}
	return findings
}

func wantFile(view checks.View, have int, onHead bool) string {
	switch {
	case onHead && !view.Launch.Local:
		return "the launching machine's"
	case have > 0:
		return "the other nodes'"
	}
	return "a path that is there"
}

// missingError is what a rank says that does not find a file.
// Source: deepspeed/runtime/config.py, DeepSpeedConfig, 0.9.5 to 0.19.8.
func missingError(view checks.View, named facts.LaunchFile) string {
	name := shortName(view.Launch, named.Path)
	switch {
	case named.Role == facts.RoleConfig:
		return "ValueError: Expected a string path to an existing deepspeed config, or a dictionary or a valid base64. Received: " + name
	case named.Role == facts.RoleVenv:
		return fmt.Sprintf("bash: line 1: %s: No such file or directory, and the ranks go on without that environment", name)
	case named.Role == facts.RoleArgument:
		return fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s', where a rank of the node opens it", name)
	case view.Launch.NoPython:
		return fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s'", name)
	}
	return fmt.Sprintf("can't open file '%s': [Errno 2] No such file or directory", named.Path)
}

// bringFile brings a file to {nodes} from the launching machine, else from a
// node that has it.
func bringFile(view checks.View, nodes []*facts.Node, named facts.LaunchFile) []fix.Command {
	file, from := ranks.FileAt(view.Head, named), (*facts.Node)(nil)
	for _, node := range nodes {
		if isThere(node, named) {
			from = node
		}
	}
	if !isThere(view.Head, named) {
		file = ranks.FileAt(from, named)
	}
	if file == nil {
		return []fix.Command{fix.On("ls -la %s", fix.Path(path.Dir(named.Path)))}
	}
	name := named.Path
	if file.Kind == "directory" {
		if named.Role == facts.RoleArgument || isShared(view, name) {
			return []fix.Command{fix.On("ls -la %s", fix.Path(path.Dir(name)))} // data and checkpoints are too much to send unasked
		}
		name += "/"
	}
	commands := []fix.Command{fix.On("mkdir -p %s", fix.Path(path.Dir(named.Path)))}
	if isThere(view.Head, named) {
		return append(commands, fix.CopyTo(name))
	}
	return append(commands, fix.CopyFrom(from.Name, name))
}
