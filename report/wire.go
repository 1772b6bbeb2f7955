package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
)

// slowestNamed is how many of many nodes a line names.
const slowestNamed = 3

// wire says what the nodes proved by calling each other: how many pairs, and
// who joined the rendezvous when.
func (p *page) wire(r checks.Report) {
	p.list("mesh", MeshWords(r.Nodes, RanksMesh))
	p.rendezvous(r.Nodes)
	p.throughput(r.Nodes)
}

// call is one that was answered.
type call struct {
	from, to string
	seconds  float64
}

// MeshPart is a node's part in one of the two mesh drills, nil where it took none.
type MeshPart func(*facts.Node) *facts.Mesh

// The drill on the addresses that the ranks will use, and on those that lead to the peers.
func RanksMesh(node *facts.Node) *facts.Mesh { return node.Mesh }
func PeersMesh(node *facts.Node) *facts.Mesh { return node.PeerMesh }

// MeshWords is a mesh drill in one sentence, "" where nobody called anybody.
func MeshWords(nodes []facts.Node, part MeshPart) string {
	var answered []call
	called := 0
	var interfaces []string
	for i := range nodes {
		node, mesh := &nodes[i], part(&nodes[i])
		if mesh == nil || mesh.Error != "" {
			continue
		}
		if !slices.Contains(interfaces, mesh.Interface) {
			interfaces = append(interfaces, mesh.Interface)
		}
		for peer, seconds := range mesh.Reached {
			if peer != node.Name {
				answered = append(answered, call{node.Name, peer, seconds})
			}
		}
		for _, path := range mesh.Failed {
			if path.Peer != node.Name {
				called++
			}
		}
	}
	called += len(answered)
	if called == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %s answer on %s", len(answered), Plural(called, "call"), strings.Join(interfaces, ", "))
	if pairs := len(nodes) * (len(nodes) - 1); called < pairs {
		text += fmt.Sprintf(" (%d calls would be all)", pairs)
	}
	if len(answered) > 0 {
		slowest := slices.MaxFunc(answered, func(a, b call) int {
			return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(b.from+" "+b.to, a.from+" "+a.to))
		})
		text += fmt.Sprintf(", the slowest %s → %s in %s", slowest.from, slowest.to, Milliseconds(slowest.seconds))
	}
	return text
}

func (p *page) rendezvous(nodes []facts.Node) {
	type joining struct {
		node string
		at   float64
	}
	var joined []joining
	endpoint, together, complete := "", 0.0, 0
	for _, node := range nodes {
		if node.Rendezvous == nil {
			continue
		}
		endpoint = node.Rendezvous.Endpoint
		if node.Rendezvous.Joined > 0 {
			joined = append(joined, joining{node.Name, node.Rendezvous.Joined})
		}
		if node.Rendezvous.Failed == "" {
			complete++
			together = max(together, node.Rendezvous.Complete)
		}
	}
	if endpoint == "" {
		return
	}
	text := fmt.Sprintf("%s: %d of %s joined", endpoint, len(joined), Plural(len(nodes), "node"))
	if len(joined) > 0 {
		if complete == len(nodes) {
			text += ", all together after " + Milliseconds(together)
		}
		text += ": "
		if len(joined) > 2*slowestNamed && !p.style.Verbose {
			slices.SortStableFunc(joined, func(a, b joining) int { return cmp.Compare(b.at, a.at) })
			joined = joined[:slowestNamed]
			text += "the last "
		}
		var parts []string
		for _, j := range joined {
			parts = append(parts, j.node+" "+Milliseconds(j.at))
		}
		text += strings.Join(parts, ", ")
	}
	p.list("rendezvous", text)
}

func (p *page) throughput(nodes []facts.Node) {
	var sent []*facts.Throughput
	from := map[*facts.Throughput]string{}
	for i := range nodes {
		if seen := nodes[i].Throughput; seen != nil && seen.Error == "" {
			sent = append(sent, seen)
			from[seen] = nodes[i].Name
		}
	}
	if len(sent) == 0 {
		return
	}
	if len(sent) > 2*slowestNamed && !p.style.Verbose {
		slices.SortStableFunc(sent, func(a, b *facts.Throughput) int { return cmp.Compare(a.Rate, b.Rate) })
		sent = sent[:slowestNamed]
	}
	var parts []string
	for _, seen := range sent {
		parts = append(parts, fmt.Sprintf("%s → %s %.2f Gbit/s", from[seen], seen.Peer, seen.Rate/1e9))
	}
	p.list("throughput", strings.Join(parts, ", "))
}

func Milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", seconds*1000) }

// wireChecks are those whose findings the advice is about.
var wireChecks = []string{"nic-choice", "nic-same", "node-mesh", "master-address", "rendezvous", "env-sane", "host-names"}

// advice prints what was proven to work where something else did not, or for
// whoever wants to see everything.
func (p *page) advice(r checks.Report) {
	concerns := slices.ContainsFunc(r.Findings, func(f checks.Finding) bool { return slices.Contains(wireChecks, f.Check) })
	list := func(heading string, settings []checks.AdvisedEnv, args []string) {
		if len(settings)+len(args) == 0 {
			return
		}
		p.line("\n%s", p.faint(heading))
		for _, env := range settings {
			p.line("  %s", Escape(env.Name+"="+env.Value))
			p.wrapped("      ", env.Why)
		}
		for _, arg := range args {
			p.line("  %s %s …", r.Advice.Program, Escape(arg))
		}
	}
	if concerns || p.style.Verbose {
		list("proven to work by this run", r.Advice.Env, r.Advice.Args)
	}
	if p.style.Verbose {
		list("derived from what was seen, not tried", r.Advice.Seen, nil)
	}
}
