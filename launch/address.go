package launch

import "preflight/facts"

// Choice is the interface and address that a library will take on one node.
type Choice struct {
	Interface string // "" when the rule names an address of no known interface
	Address   string // an IP address without a prefix length
	Rule      string // why this one, for a person: "NCCL_SOCKET_IFNAME=eth0 from /etc/nccl.conf"
	Error     string // what the library will die with where it can choose nothing, else ""
}

// NCCL is the interface that NCCL's bootstrap will use on the node.
func (p Prediction) NCCL(node *facts.Node) Choice { return PeerAddress(node) }

// NCCLSockets are the interfaces that NCCL's NET/Socket will use on the node
// where it uses sockets at all: at most 16, bootstrap's first.
func (p Prediction) NCCLSockets(node *facts.Node) []Choice { return []Choice{p.NCCL(node)} }

// Gloo is the address that gloo's first device will use on the node.
func (p Prediction) Gloo(node *facts.Node) Choice { return PeerAddress(node) }

// TensorPipe is the address that torch's RPC will use on the node.
func (p Prediction) TensorPipe(node *facts.Node) Choice { return PeerAddress(node) }

// RankAddress is where the ranks of the node will listen for the others: NCCL's
// choice, or gloo's where a slot is a process.
func (p Prediction) RankAddress(node *facts.Node) Choice {
	if p.Accelerator == "cpu" {
		return p.Gloo(node)
	}
	return p.NCCL(node)
}

// PeerAddress is the interface and address that lead to the peers: the one
// the node was reached at, else the one its routes to them leave by.
func PeerAddress(node *facts.Node) Choice { return Choice{Address: node.Address} }

// Meeting is where the ranks will meet.
type Meeting struct {
	Host  string // a name or an address, as the ranks are told; "" with Error
	Port  int
	Rule  string // how it comes about, for a person
	Error string // why there is none
}

// Meeting is where the ranks will meet, first being the node of rank 0.
func (p Prediction) Meeting(first *facts.Node) Meeting {
	return Meeting{Host: first.Address, Port: p.MasterPort}
}

// Serves is whether a node will hold itself for the host of the store at the
// meeting, and by which rule.
func (p Prediction) Serves(m Meeting, node, first *facts.Node) (serves bool, why string) {
	return node == first, "node 0 serves"
}

// GenerationOf is the store protocol of a torch release, the newest for "".
func GenerationOf(torch string) facts.Generation { return facts.GenerationPings }

// Mixed is what happens when a client of one generation meets a server of
// another, "" when they understand each other.
func Mixed(client, server facts.Generation) string { return "" }
