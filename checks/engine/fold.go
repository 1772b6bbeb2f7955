// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// addressing holds what commands need to know about the machines of a launch. The key "" stands for
// the launching machine.
type addressing struct {
	position map[string]int      // each node's position in the hostfile
	root     map[string]bool     // whether preflight is root on each machine
	tools    map[string][]string // the tools of each machine, no entry if unknown: see facts.Host.Tools
	port     int                 // the value of --ssh_port, 0 for none
	srun     []string            // the options with which srun reached the nodes, nil if srun did not reach them
	pods     []string            // the options with which kubectl reached the nodes, nil if kubectl did not reach them
	hostfile string              // the path of the hostfile that was read
	inside   map[string][]string // the command that enters the container of each node's ranks
}

// typedAgain matches the options of srun and kubectl that printed commands repeat because they name
// a place. All other options of a saved run are left out.
var typedAgain = map[string]*regexp.Regexp{
	"kubectl": regexp.MustCompile(`^--(context|namespace|container)=[\w.:/@-]+$`),
	"srun":    regexp.MustCompile(`^--(jobid|container-(image|name|mounts|workdir))=[\w.:/@#,+-]+$`),
}

// reachedBy returns the options with which srun or kubectl reached the nodes, without the options
// that are not repeated. It returns nil if that program did not reach the nodes.
func reachedBy(carrier string, nodes []facts.Node) (options []string) {
	for i := range nodes {
		if ssh := nodes[i].SSH; ssh != nil && ssh.Carrier == carrier && len(options) == 0 {
			options = slices.DeleteFunc(append([]string{}, ssh.Options...), func(option string) bool { return !typedAgain[carrier].MatchString(option) })
		}
	}
	return options
}

func NewAddressing(fleet facts.Fleet, p launch.Prediction) addressing {
	r := addressing{position: map[string]int{}, root: map[string]bool{}, port: p.SSHPort, hostfile: cmp.Or(p.HostsFile, "hostfile"), inside: map[string][]string{}, tools: map[string][]string{}}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		if node.SSH != nil && node.SSH.Inside != nil {
			r.inside[node.Name] = node.SSH.Inside
		}
		r.position[node.Name] = i
		r.know(node.Name, node)
	}
	if fleet.Head != nil {
		r.know("", fleet.Head)
	}
	r.srun, r.pods = reachedBy("srun", fleet.Nodes), reachedBy("kubectl", fleet.Nodes)
	return r
}

// know records a machine's user and tools under a name.
func (r addressing) know(name string, machine *facts.Node) {
	r.root[name] = isRoot(machine)
	if machine.Host != nil && machine.Host.Tools != nil {
		r.tools[name] = machine.Host.Tools
	}
}

// lacks reports whether a program is known to be missing on a machine.
func (r addressing) lacks(name, program string) bool {
	tools, known := r.tools[name]
	return known && !slices.Contains(tools, program)
}

// Fold joins findings that differ only in their nodes. It writes the nodes into the fixes and
// messages of the findings.
func (r addressing) Fold(findings []checks.Finding) []checks.Finding {
	var folded []checks.Finding
	at := map[string]int{}
	for _, f := range findings {
		key := strings.Join(append([]string{string(f.Verdict), f.Summary, f.Got, f.Want, f.WouldSee, f.SharesCause}, f.Remedies()...), "\x00")
		if i, seen := at[key]; seen {
			folded[i].Nodes = append(folded[i].Nodes, f.Nodes...)
			folded[i].Changes = append(folded[i].Changes, f.Changes...)
			continue
		}
		at[key] = len(folded)
		f.Nodes = append([]string{}, f.Nodes...) // a copy that is never null in JSON
		f.Changes = slices.Clip(f.Changes)
		folded = append(folded, f)
	}
	for i := range folded {
		f := &folded[i]
		slices.SortStableFunc(f.Nodes, func(a, b string) int { return cmp.Compare(r.position[a], r.position[b]) })
		f.Nodes = slices.Compact(f.Nodes)
		r.writeNodes(f)
	}
	return folded
}

func (r addressing) writeNodes(f *checks.Finding) {
	f.Fix, f.Roles, f.Notes = nil, nil, nil
	for _, command := range f.Remedy {
		line, isCommand := command.Addressed(fix.Audience{
			Nodes: f.Nodes, Port: r.port, Srun: r.srun, Pods: r.pods, Hostfile: r.hostfile,
			Inside: func(node string) []string { return r.inside[node] }, IsRoot: func(node string) bool { return r.root[node] }, Lacks: r.lacks,
		})
		switch { // if several commands cannot be printed, one note is enough
		case isCommand && !slices.Contains(f.Fix, line):
			f.Fix, f.Roles = append(f.Fix, line), append(f.Roles, command.Role())
		case !isCommand && !slices.Contains(f.Notes, line):
			f.Notes = append(f.Notes, line)
		}
	}
	f.Remedy, f.Decide = nil, !slices.Contains(f.Roles, fix.Fix)
	if len(f.Nodes) > 0 {
		set, first := hostfile.Fold(f.Nodes), f.Nodes[0]
		f.WouldSee = strings.NewReplacer("{nodes}", set, "{node}", first, "{host}", hostfile.Bare(first)).Replace(f.WouldSee)
	}
}

// isRoot reports whether preflight is root on a machine. If there are no facts of the machine, the
// account of the login decides.
func isRoot(node *facts.Node) bool {
	if node.Host != nil {
		return node.Host.User == "root"
	}
	return node.SSH != nil && node.SSH.User == "root"
}
