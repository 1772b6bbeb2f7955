package checks

import (
	"cmp"
	"strconv"

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

// inFull is the path of a fact that may have been named in short.
func inFull(fact string) string { return cmp.Or(shorthands[fact], fact) }

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
