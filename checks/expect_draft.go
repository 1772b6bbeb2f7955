package checks

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"preflight/facts"
)

// Draft is an expectation that most of a fleet meets as it is.
type Draft struct {
	Fact  string
	Is    string // what most nodes have
	About string // why it is worth stating, "" where the one before says so
	// Groups are the nodes by their value, the largest first; one where all agree.
	Groups []FactGroup
}

// draftedFact is one by its name in a policy, what its values are stated with, and why.
type draftedFact struct{ path, op, about string }

// draftedFacts are what teams standardise, and how much of it a node may have more.
// What the launch brings itself and what a single drill shows is not among them.
var draftedFacts = []draftedFact{
	{"host.os", "", "A node that was installed otherwise, or not updated with the others."},
	{"host.kernel", "", "One that runs an older kernel shows here before its drivers do; after updates, \">=…\"."},
	{"gpu.driver", "", "The NVIDIA driver; \">=…\" lets newer ones in."},
	{"gpu.open_module", "", "NVIDIA's open kernel module, or the closed one (false)."},
	{"python.version", "", "The interpreter that the launch uses."},
	{"python.packages.*", "", "What ranks compute and talk with. Take out what may differ; \"<4\" and \">=2.4, <2.6\" leave room."},
	{"shm.size", ">=", "/dev/shm, which NCCL and DataLoader workers share."},
	{"limits.memlock.soft", ">=", "Memory that ranks may lock: InfiniBand and RoCE want \"unlimited\"."},
	{"limits.nofile.hard", ">=", "Files and connections that a rank may have open."},
	{peersMTU, "", "The MTU of the interface that leads to the other nodes."},
	{"ib.devices.*.firmware", "", "The firmware of each RDMA adapter."},
}

// Drafts are expectations for a policy that a team begins with, from the nodes that
// were reached. What most nodes do not have is not among them.
func Drafts(nodes []facts.Node) []Draft {
	var drafts []Draft
	for _, drafted := range draftedFacts {
		path := inFull(drafted.path)
		section := sectionOf(path)
		var seen []*facts.Node
		for i := range nodes {
			node := &nodes[i]
			tells := node.Reached && node.Has(section) && untold(node, section) == ""
			if noModule := path == "gpu.open_module" && moduleKind(node) == ""; tells && !noModule {
				seen = append(seen, node)
			}
		}
		about := drafted.about
		for _, d := range drafted.groups(path, seen) {
			if drafted.op != "" && facts.Unit(d.Fact) == "bytes" {
				d.Groups = together(d.Groups)
			}
			if d.Is = stating(drafted.op, string(d.Groups[0].Value), d.Fact); d.Is != "" {
				d.About, about = about, ""
				drafts = append(drafts, d)
			}
		}
	}
	return drafts
}

// groups are drafts without their statements, sorted by fact.
func (f draftedFact) groups(path string, seen []*facts.Node) (drafts []Draft) {
	if f.path == peersMTU {
		seen = slices.DeleteFunc(slices.Clone(seen), func(n *facts.Node) bool { _, mtu := mtuToPeers(n); return mtu == "" })
		d := Draft{Fact: f.path}
		for _, g := range groupBy(seen, func(n *facts.Node) string { _, mtu := mtuToPeers(n); return mtu }) {
			d.Groups = append(d.Groups, FactGroup{Value: json.RawMessage(g.Value), Nodes: g.Nodes})
		}
		if d.Groups == nil {
			return nil
		}
		return []Draft{d}
	}
	kinds := kindsOf(seen, sectionOf(path))
	spreads, pattern := spreadsOf(kinds.first, sectionOf(path)), pathPattern(path, ".+")
	for _, fact := range slices.Sorted(maps.Keys(spreads)) {
		if pattern.MatchString(fact) {
			named := fact
			if path != f.path {
				named = f.path
			}
			drafts = append(drafts, Draft{Fact: named, Groups: spreads[fact].groups(kinds, seen)})
		}
	}
	return drafts
}

// stating is the constraint that a value meets, "" for a value that would read as
// another constraint than itself, as a hostile node may send.
func stating(op, value, path string) string {
	text := unquoted(value)
	switch {
	case op != "" && strings.HasPrefix(text, "-") && canBeUnlimited(path):
		text = unlimitedWord
	case op != "" && facts.Unit(path) == "bytes":
		text = op + sizeToState(text)
	default:
		text = op + text
	}
	e := Expectation{Fact: path, Is: []string{text}}
	s, err := readExpectation(e)
	if err != nil || strings.Contains(path, "*") {
		return ""
	}
	if met, err := s.allows(value); err != nil || !met || op == "" && operator.MatchString(text) {
		return ""
	}
	return text
}
