package checks

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// Draft is an expectation that most of a fleet meets as it is.
type Draft struct {
	Fact string
	Is   string // what most nodes have
	// Groups are the nodes by their value, the largest first; one where all agree.
	Groups []FactGroup
}

// draftedFacts are what teams standardise, and how much of it a node may have more.
// What the launch brings itself and what a single drill shows is not among them.
var draftedFacts = []struct{ path, op string }{
	{"host.os", ""},
	{"host.kernel", ""},
	{"nvml.driver", ""},
	{"gpu.open_module", ""},
	{"python.version", ""},
	{"python.packages.*", ""},
	{"shm.size", ">="},
	{"limits.memlock.soft", ">="},
	{"limits.nofile.hard", ">="},
	{"net.interfaces.*.mtu", ""},
	{"ib.devices.*.firmware", ""},
}

// Drafts are expectations for a policy that a team begins with, from the nodes that
// were reached. What most nodes do not have is not among them.
func Drafts(nodes []facts.Node) []Draft {
	var drafts []Draft
	for _, drafted := range draftedFacts {
		section, pattern := sectionOf(drafted.path), pathPattern(drafted.path, ".+")
		var seen []*facts.Node
		for i := range nodes {
			if node := &nodes[i]; node.Reached && node.Has(section) && untold(node, section) == "" {
				seen = append(seen, node)
			}
		}
		kinds := kindsOf(seen, section)
		spreads := spreadsOf(kinds.first, section)
		for _, path := range slices.Sorted(maps.Keys(spreads)) {
			if !pattern.MatchString(path) || isOfNoNetwork(path, spreads) {
				continue
			}
			d := Draft{Fact: path, Groups: spreads[path].groups(kinds, seen)}
			if d.Is = stating(drafted.op, string(d.Groups[0].Value), path); d.Is != "" {
				drafts = append(drafts, d)
			}
		}
	}
	return drafts
}

// isOfNoNetwork is whether a path is an interface's that packets to other nodes do not
// leave by: containers' come and go.
func isOfNoNetwork(path string, spreads map[string]*spread) bool {
	name, isInterface := strings.CutSuffix(path, ".mtu")
	if !isInterface {
		return false
	}
	kind, known := spreads[name+".kind"]
	return known && !slices.Contains([]string{`"physical"`, `"bond"`, `"infiniband"`, `"vlan"`}, kind.first)
}

// stating is the constraint that a value meets, "" for a value that would read as
// another constraint than itself, as a hostile node may send.
func stating(op, value, path string) string {
	text := unquoted(value)
	switch {
	case op != "" && strings.HasPrefix(text, "-") && canBeUnlimited(path):
		text = unlimitedWord
	case op != "" && facts.Unit(path) == "bytes":
		text = op + sizeAsStated(text)
	default:
		text = op + text
	}
	e := Expectation{Fact: path, Is: []string{text}}
	s, err := e.read()
	if err != nil || strings.Contains(path, "*") {
		return ""
	}
	if met, err := s.allows(value); err != nil || !met || op == "" && operator.MatchString(text) {
		return ""
	}
	return text
}

// sizeAsStated is a size in the largest unit that it is a whole number of.
func sizeAsStated(bytes string) string {
	size, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if one := int64(1) << (40 - 10*i); size > 0 && size%one == 0 {
			return strconv.FormatInt(size/one, 10) + unit
		}
	}
	return bytes
}
