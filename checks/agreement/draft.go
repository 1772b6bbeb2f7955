// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/remedy"
	"preflight/facts"
)

// Draft is an expectation that most of the fleet already meets.
type Draft struct {
	Fact  string
	Is    string // the value of most nodes
	About string // the reason to state the expectation, "" if the previous draft gives the reason
	// Groups lists the nodes by value, the largest group first. There is a single group if all
	// nodes have the same value.
	Groups []checks.FactGroup
}

// draftedFact is a fact by its name in a policy, with the operator for its values and the reason to
// state the fact.
type draftedFact struct{ path, op, about string }

// draftedFacts lists the facts that teams standardise. It does not contain facts that depend on the
// launch, or facts that only a test shows.
var draftedFacts = []draftedFact{
	{"host.os", "", "Finds a node with another installation, or without the latest updates."},
	{"host.kernel", "", "Finds a node with an older kernel before its drivers show it. After updates, use \">=…\"."},
	{"gpu.driver", "", "The NVIDIA driver. \">=…\" also allows newer ones."},
	{"gpu.open_module", "", "NVIDIA's open kernel module (true) or the proprietary one (false)."},
	{"python.version", "", "The interpreter that the launch uses."},
	{"python.packages.*", "", "Packages of the ranks. Remove those that may differ. \"<4\" and \">=2.4, <2.6\" state ranges."},
	{"shm.size", ">=", "/dev/shm, which NCCL and DataLoader workers share."},
	{"limits.memlock.soft", ">=", "Memory that ranks may lock. InfiniBand and RoCE need \"unlimited\"."},
	{"limits.nofile.hard", ">=", "Files and connections that a rank may have open."},
	{peersMTU, "", "The MTU of the interface that leads to the other nodes."},
	{"ib.devices.*.firmware", "", "The firmware of each RDMA adapter."},
}

// Drafts returns expectations for a first policy, derived from the reached nodes. Facts that most
// nodes lack are left out.
func Drafts(nodes []facts.Node) []Draft {
	var drafts []Draft
	for _, drafted := range draftedFacts {
		path := InFull(drafted.path)
		section := compare.SectionOf(path)
		var seen []*facts.Node
		for i := range nodes {
			node := &nodes[i]
			isSeen := node.Reached && node.Has(section) && notSeen(node, section) == ""
			if noModule := path == "gpu.open_module" && remedy.ModuleKind(node) == ""; isSeen && !noModule {
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

func (f draftedFact) groups(path string, seen []*facts.Node) (drafts []Draft) {
	if f.path == peersMTU {
		d := Draft{Fact: f.path}
		for _, g := range compare.GroupBy(seen, func(n *facts.Node) string { _, mtu := mtuToPeers(n); return mtu }) {
			if g.Value != "" {
				d.Groups = append(d.Groups, checks.FactGroup{Value: json.RawMessage(g.Value), Nodes: g.Nodes})
			}
		}
		if d.Groups == nil {
			return nil
		}
		return []Draft{d}
	}
	kinds := compare.KindsOf(seen, compare.SectionOf(path))
	spreads, pattern := compare.SpreadsOf(kinds.First, compare.SectionOf(path)), PathPattern(path, ".+")
	for _, fact := range slices.Sorted(maps.Keys(spreads)) {
		if pattern.MatchString(fact) {
			named := fact
			if path != f.path {
				named = f.path
			}
			drafts = append(drafts, Draft{Fact: named, Groups: spreads[fact].Groups(kinds, seen)})
		}
	}
	return drafts
}

// stating returns the constraint that allows a value. It returns "" if the policy parser would read
// the value as another constraint. That check is necessary because nodes are not trusted.
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
	e := checks.Expectation{Fact: path, Is: []string{text}}
	s, err := readExpectation(e)
	if err != nil || strings.Contains(path, "*") {
		return ""
	}
	if met, err := s.allows(value); err != nil || !met || op == "" && isComparison(text) {
		return ""
	}
	return text
}

// sizeToState returns a round size unchanged, and any other size minus 1 %. A tmpfs and limits that
// follow the memory size shrink by some pages with the next kernel. That must not stop a launch.
func sizeToState(bytes string) string {
	size, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	for i, unit := range []string{"TiB", "GiB", "MiB"} {
		if one := int64(1) << (40 - 10*i); size > 0 && size%one == 0 {
			return strconv.FormatInt(size/one, 10) + unit
		}
	}
	switch {
	case size > 1<<20:
		return strconv.FormatInt((size-size/noise)>>20, 10) + "MiB"
	case size > 0 && size%1024 == 0:
		return strconv.FormatInt(size/1024, 10) + "KiB"
	case size > 0 && size < 1024: // [ReadSize] would refuse such a number without a unit
		return bytes + "B"
	}
	return bytes
}

// noise is the divisor for differences that do not count: two sizes count as equal if they differ by
// at most one part in noise.
const noise = 100

// together joins groups whose sizes differ only by noise. The joined group has the smallest of the
// sizes.
func together(groups []checks.FactGroup) []checks.FactGroup {
	all := checks.FactGroup{}
	least, most := int64(math.MaxInt64), int64(0)
	for _, g := range groups {
		size, err := strconv.ParseInt(string(g.Value), 10, 64)
		if err != nil || size <= 0 {
			return groups
		}
		if size < least {
			least, all.Value = size, g.Value
		}
		most = max(most, size)
		all.Nodes = append(all.Nodes, g.Nodes...)
	}
	if most-least > most/noise {
		return groups
	}
	return []checks.FactGroup{all}
}
