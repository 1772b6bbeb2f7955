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

// addressing is what it takes to address commands to the machines of a launch.
type addressing struct {
	position map[string]int      // a node's place in the hostfile
	root     map[string]bool     // nodes where we are root
	headRoot bool                // the same of the launching machine
	port     int                 // --ssh_port, 0 for none
	srun     []string            // the options of srun that reached them, nil where it did not
	pods     []string            // the options of kubectl that reached them, nil where it did not
	hostfile string              // the one that was read
	inside   map[string][]string // what the ranks of a node run in, by the command that enters it
}

// typedAgain are the options of a carrier's program that name a place: no other of a saved run
// is typed again.
var typedAgain = map[string]*regexp.Regexp{
	"kubectl": regexp.MustCompile(`^--(context|namespace|container)=[\w.:/@-]+$`),
	"srun":    regexp.MustCompile(`^--(jobid|container-(image|name|mounts|workdir))=[\w.:/@#,+-]+$`),
}

// reachedBy are the options by which a carrier reached nodes, as far as they are typed again,
// nil where it did not.
func reachedBy(carrier string, nodes []facts.Node) (options []string) {
	for i := range nodes {
		if ssh := nodes[i].SSH; ssh != nil && ssh.Carrier == carrier && len(options) == 0 {
			options = slices.DeleteFunc(append([]string{}, ssh.Options...), func(option string) bool { return !typedAgain[carrier].MatchString(option) })
		}
	}
	return options
}

func NewAddressing(fleet facts.Fleet, p launch.Prediction) addressing {
	r := addressing{position: map[string]int{}, root: map[string]bool{}, port: p.SSHPort, hostfile: cmp.Or(p.HostsFile, "hostfile"), inside: map[string][]string{}}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		if node.SSH != nil && node.SSH.Inside != nil {
			r.inside[node.Name] = node.SSH.Inside
		}
		r.position[node.Name], r.root[node.Name] = i, isRoot(node)
	}
	r.srun, r.pods = reachedBy("srun", fleet.Nodes), reachedBy("kubectl", fleet.Nodes)
	r.headRoot = fleet.Head != nil && isRoot(fleet.Head)
	return r
}

// Fold joins findings that say the same of different nodes, and writes the
// nodes into their fixes and messages.
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
		f.Nodes = append([]string{}, f.Nodes...) // never null in JSON, never the check's own slice
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
			Inside: func(node string) []string { return r.inside[node] }, IsRoot: r.isRoot,
		})
		switch { // of several that are refused one says so
		case isCommand && !slices.Contains(f.Fix, line):
			f.Fix, f.Roles = append(f.Fix, line), append(f.Roles, command.Role())
		case !isCommand && !slices.Contains(f.Notes, line):
			f.Notes = append(f.Notes, line)
		}
	}
	f.Remedy = nil
	if len(f.Nodes) > 0 {
		set, first := hostfile.Fold(f.Nodes), f.Nodes[0]
		f.WouldSee = strings.NewReplacer("{nodes}", set, "{node}", first, "{host}", hostfile.Bare(first)).Replace(f.WouldSee)
	}
}

func (r addressing) isRoot(node string) bool {
	if node == "" {
		return r.headRoot
	}
	return r.root[node]
}

// isRoot is whether we are root on a machine: by what it says itself, and where
// nothing was seen of it by the account we log in to.
func isRoot(node *facts.Node) bool {
	if node.Host != nil {
		return node.Host.User == "root"
	}
	return node.SSH != nil && node.SSH.User == "root"
}
