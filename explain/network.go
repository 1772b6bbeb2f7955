// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/internal/text"
)

// Network holds what NCCL chose on one node and what is unusual about that choice, as logged with
// NCCL_DEBUG=INFO. Fields that the log does not show are empty.
type Network struct {
	Node        string            `json:"node,omitempty"` // NCCL's name for the node: the host name up to the first dot
	NCCL        string            `json:"nccl_version,omitempty"`
	Nodes       int               `json:"nodes,omitempty"`      // number of nodes of the largest communicator; logged since NCCL 2.20
	Bootstrap   *Interface        `json:"bootstrap,omitempty"`  // the interface for the first connections between ranks
	Net         string            `json:"network,omitempty"`    // IB, Socket or a plugin's name
	Provider    string            `json:"provider,omitempty"`   // libfabric's provider, if the plugin uses libfabric
	Interfaces  []Interface       `json:"interfaces,omitempty"` // interfaces that NCCL uses for sockets
	HCAs        []HCA             `json:"hcas,omitempty"`
	NoHCA       bool              `json:"no_hca,omitempty"`      // NCCL looked for RDMA devices and found none
	Connections []string          `json:"connections,omitempty"` // kinds: NET/IB/GDRDMA, NET/Socket, P2P/CUMEM, P2P/IPC, SHM/direct, …
	Variables   map[string]string `json:"variables,omitempty"`   // variables that NCCL logs as set
	Slow        []string          `json:"slow,omitempty"`        // settings that cost speed, or probably do
}

// Interface is a network interface that NCCL uses for sockets.
type Interface struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
}

// HCA is one port of an RDMA device, or several ports that NCCL merged.
type HCA struct {
	Name string `json:"name"`           // for example mlx5_0:1
	Link string `json:"link,omitempty"` // IB or RoCE
	GDR  string `json:"gdr,omitempty"`  // GPUDirect RDMA: enabled or disabled
}

// String returns one line about NCCL's choices. The line is the same for nodes of the same kind.
func (n Network) String() string {
	var parts []string
	if n.NCCL != "" {
		parts = append(parts, "NCCL "+n.NCCL)
	}
	if n.Net != "" {
		part := "network " + n.Net
		if n.Net == socket && len(n.Interfaces) > 0 {
			part += " on " + text.Some(interfaceNames(n.Interfaces), mostShown)
		} else if n.Net != socket && len(n.HCAs) > 0 {
			part += " on " + text.Some(hcaNames(n.HCAs), mostShown)
		}
		if n.Net == socket && n.NoHCA {
			part += " (NCCL found no active RDMA port)"
		}
		parts = append(parts, part)
	}
	if len(n.Connections) > 0 {
		parts = append(parts, "connections over "+strings.Join(n.Connections, ", "))
	}
	if n.Bootstrap != nil {
		parts = append(parts, "bootstrap on "+n.Bootstrap.Name)
	}
	return strings.Join(parts, "; ")
}

func interfaceNames(interfaces []Interface) []string {
	return text.Map(interfaces, func(i Interface) string { return i.Name })
}

func hcaNames(hcas []HCA) []string {
	return text.Map(hcas, func(h HCA) string { return h.Name })
}

const (
	socket = "Socket"
	// mostShown is the maximum number of devices or versions in one sentence.
	mostShown = 8
	// These limits bound the memory that a hostile log can use.
	mostNetworks  = 4096
	mostDevices   = 64
	mostVariables = 64
	mostKinds     = 24 // kinds of connections
	longestValue  = 120
	longestName   = 64
)

// networks collects NCCL's network messages from all logs.
type networks struct {
	nodes    map[string]*gathered
	order    []*gathered
	versions map[string]string // NCCL's version by the node of the file; before 2.24 only rank 0 logs the version, on a line without a host
}

func newNetworks() networks {
	return networks{nodes: map[string]*gathered{}, versions: map[string]string{}}
}

// gathered is a Network that is still being filled.
type gathered struct {
	Network
	file   string // node to which the first log with a line of this node belongs
	nets   []string
	staged bool // a rank receives over RDMA without GPUDirect RDMA
	noPeer bool // the driver refuses P2P between connected GPUs
}

// summary returns one Network for each node, in the order of the nodes' first lines.
func (n *networks) summary() []Network {
	inFile := map[string]bool{}
	for _, g := range n.order {
		inFile[g.file] = true
		g.finish()
		g.NCCL = cmp.Or(g.NCCL, n.versions[g.file])
	}
	all := n.order
	for _, file := range slices.Sorted(maps.Keys(n.versions)) {
		if !inFile[file] {
			all = append(all, &gathered{Network: Network{Node: file, NCCL: n.versions[file]}})
		}
	}
	findOddities(all)
	var done []Network
	for _, g := range all {
		done = append(done, g.Network)
	}
	return done
}

// finish sets the network if the log does not name it. This happens if the log is cut or NCCL is
// older than 2.6.
func (g *gathered) finish() {
	slices.Sort(g.Connections)
	for _, kind := range g.Connections {
		if name, found := strings.CutPrefix(kind, "NET/"); found && len(g.nets) == 0 {
			g.nets = []string{strings.TrimSuffix(name, gdr)}
		}
	}
	switch {
	case len(g.nets) > 0:
	case len(g.HCAs) > 0:
		g.nets = []string{"IB"}
	case g.NoHCA:
		g.nets = []string{socket}
	}
	g.Net = strings.Join(g.nets, ", ")
}

// findOddities adds to each node the settings that cost speed, or probably do, and the values that
// differ from the other nodes.
func findOddities(all []*gathered) {
	nodes := 0
	for _, g := range all {
		nodes = max(nodes, g.Nodes)
	}
	if nodes == 0 { // NCCL logs the number of nodes only since 2.20, so count the nodes in the logs
		nodes = len(all)
	}
	usual := differences(all, "network", func(g *gathered) string { return g.Net })
	differences(all, "NCCL", func(g *gathered) string { return g.NCCL })
	for _, g := range all {
		if g.Net == socket && (nodes > 1 || g.connects(overNetwork)) {
			g.sockets(usual)
		}
		if nodes > 1 {
			g.virtual()
		}
		g.direct()
		g.withinNode()
		if nodes == 1 && g.Nodes == 1 && g.connects(overNetwork) {
			g.slow("GPUs of one node reach each other over the network")
		}
	}
}

// differences reports the nodes whose value differs from the majority's value, or all nodes if no
// value has a majority. It returns the majority's value, or "" if there is no majority.
func differences(all []*gathered, what string, of func(*gathered) string) (usual string) {
	counts, known := map[string]int{}, 0
	for _, g := range all {
		if value := of(g); value != "" {
			counts[value]++
			known++
		}
	}
	values := slices.Sorted(maps.Keys(counts))
	for _, value := range values {
		if 2*counts[value] > known {
			usual = value
		}
	}
	for _, g := range all {
		value := of(g)
		if value == "" || value == usual {
			continue
		}
		others := usual
		if others == "" {
			others = text.Some(slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == value }), mostShown)
		}
		g.slow("uses %s %s, but other nodes use %s", what, value, others)
	}
	return usual
}

func (g *gathered) slow(format string, values ...any) {
	g.Slow = append(g.Slow, fmt.Sprintf(format, values...))
}

func (g *gathered) connects(is func(kind string) bool) bool {
	return slices.ContainsFunc(g.Connections, is)
}

func overNetwork(kind string) bool { return strings.HasPrefix(kind, "NET/") }
func throughHost(kind string) bool { return strings.HasPrefix(kind, "SHM") }

// overRDMA reports whether a connection uses RDMA. It is false for sockets and for Google's
// networks, which reach GPUs without RDMA.
func overRDMA(kind string) bool {
	return overNetwork(kind) && !strings.HasPrefix(kind, "NET/"+socket) && !strings.HasPrefix(kind, "NET/GPUDirectTCPX") && !strings.HasPrefix(kind, "NET/FasTrak")
}

func direct(kind string) bool { return strings.HasSuffix(kind, gdr) }

// on reports whether a variable turns a setting on. NCCL reads the value as a number, and any
// number except 0 means on.
func (g *gathered) on(variable string) bool {
	value := g.Variables[variable]
	return value != "" && value != "0"
}

// sockets reports why a node uses TCP. It reports nothing if no node seems to have RDMA.
func (g *gathered) sockets(usual string) {
	const slowly = "nodes reach each other over TCP sockets, not RDMA: "
	switch wanted := g.Variables["NCCL_IB_HCA"]; {
	case g.on("NCCL_IB_DISABLE"):
		g.slow(slowly + "NCCL_IB_DISABLE=1 turns off InfiniBand and RoCE")
	case strings.EqualFold(g.Variables["NCCL_NET"], socket):
		g.slow(slowly + "NCCL_NET=Socket selects them")
	case len(g.HCAs) > 0:
		g.slow(slowly+"NCCL lists %s but does not use it", text.Some(hcaNames(g.HCAs), mostShown))
	case g.NoHCA && wanted != "":
		g.slow(slowly+"no active RDMA port matches NCCL_IB_HCA=%s", wanted)
	case g.NoHCA && usual != socket && usual != "":
		g.slow(slowly + "NCCL found no active InfiniBand or RoCE port on this node")
	}
}

// virtualNames lists the name prefixes of interfaces that do not reach other machines.
var virtualNames = []string{"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "podman", "lxc", "lxdbr", "kube-", "weave", "tailscale", "wg", "tun", "tap", "zt"}

func virtual(name string) bool {
	return name == "lo" || slices.ContainsFunc(virtualNames, func(v string) bool { return strings.HasPrefix(name, v) })
}

// virtual reports interfaces that do not reach other nodes, or reach them only by a detour.
func (g *gathered) virtual() {
	var used []Interface
	if g.Bootstrap != nil {
		used = append(used, *g.Bootstrap)
	}
	if g.Net == socket {
		used = append(used, g.Interfaces...)
	}
	for i, one := range used {
		if virtual(one.Name) && slices.Index(used, one) == i {
			g.slow("NCCL uses %s %s, which does not reach other nodes, or only by a detour: set NCCL_SOCKET_IFNAME", one.Name, one.Address)
		}
	}
}

// direct reports a network that does not access GPU memory directly.
func (g *gathered) direct() {
	if p := g.Provider; p == "tcp" || p == "sockets" || strings.HasPrefix(p, "tcp;") {
		g.slow("libfabric's provider is %s, which uses TCP sockets", p)
	}
	if !g.connects(overRDMA) {
		return
	}
	barred := slices.DeleteFunc(slices.Clone(g.HCAs), func(h HCA) bool { return h.GDR != "disabled" })
	// On many healthy machines, data to send goes through host memory, because reading from a GPU
	// is slow across PCIe (NCCL_NET_GDR_READ).
	switch level := g.Variables["NCCL_NET_GDR_LEVEL"]; {
	case len(barred) > 0:
		g.slow("GPUDirect RDMA is disabled on %s, whose data goes through host memory: load the module nvidia_peermem, or use a kernel with DMA-BUF", text.Some(hcaNames(barred), mostShown))
	case g.connects(direct) || !g.staged:
	case level != "":
		g.slow("no connection over the network uses GPUDirect RDMA: NCCL_NET_GDR_LEVEL=%s", level)
	default:
		g.slow("no connection over the network uses GPUDirect RDMA: the module nvidia_peermem is not loaded, or GPUs and RDMA devices are too far apart on the PCI bus")
	}
}

// withinNode reports GPUs of the node that do not reach each other directly.
func (g *gathered) withinNode() {
	level := g.Variables["NCCL_P2P_LEVEL"]
	switch {
	case g.on("NCCL_P2P_DISABLE") || level == "LOC" || level == "0": // before 2.28 NCCL logs NCCL_P2P_DISABLE as LOC
		g.slow("NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC: GPUs of a node reach each other neither over NVLink nor over PCIe directly")
	case g.noPeer:
		g.slow("the driver refuses P2P between GPUs that are connected")
	case g.connects(throughHost):
		g.slow("some GPUs of the node reach each other only through host memory (SHM): no NVLink connects them, and they are on different PCIe roots or P2P is disabled")
	}
	if g.on("NCCL_SHM_DISABLE") {
		g.slow("NCCL_SHM_DISABLE=1: GPUs of a node without P2P reach each other over the network")
	}
}
