package checks

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// peersMTU is the MTU of the interface that leads to the other nodes, whatever its
// name there: "net.interfaces.*.mtu" would be that of lo and docker0 too.
const peersMTU = "net.mtu"

// shorthands are the names by which teams know facts that nodes tell by longer ones.
var shorthands = map[string]string{
	"gpu.driver": "nvml.driver",
	peersMTU:     "net.interfaces.*.mtu",
}

// Stateable are the facts that an expectation can name, sorted, the short names among them.
func Stateable() []facts.Description {
	all := facts.Described()
	for short := range shorthands {
		about, err := factAt(inFull(short))
		if err != nil {
			panic("checks: " + err.Error()) // it is short for nothing
		}
		about.Path = short
		all = append(all, about)
	}
	slices.SortFunc(all, func(a, b facts.Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// inFull is the path of a fact that may have been named in short, or a package by another
// spelling than the one that nodes tell: PyYAML is pyyaml, nvidia_nccl_cu12 nvidia-nccl-cu12.
// Source: PEP 503, normalized names.
func inFull(fact string) string {
	if name, isPackage := strings.CutPrefix(fact, packagePath("")); isPackage {
		return packagePath(strings.ToLower(separators.ReplaceAllString(name, "-")))
	}
	return cmp.Or(shorthands[fact], fact)
}

var separators = regexp.MustCompile(`[-_.]+`)

// values are the facts of a node that the statement is about, by path.
func (s *statement) values(node *facts.Node, section facts.Section) map[string]string {
	values := map[string]string{}
	if s.Fact == peersMTU {
		if name, mtu := mtuToPeers(node); mtu != "" {
			values["net.interfaces."+name+".mtu"] = mtu
		}
		return values
	}
	node.EachComparable(section, func(path, value string) {
		if s.path.MatchString(path) {
			values[path] = value
		}
	})
	return values
}

// mtuToPeers is the interface that leads to the other nodes and its MTU, "" where
// it is not known which does.
func mtuToPeers(node *facts.Node) (name, mtu string) {
	name = peerInterface(node)
	for _, i := range node.Net.Interfaces {
		if i.Name == name {
			return name, strconv.Itoa(i.MTU)
		}
	}
	return name, ""
}
