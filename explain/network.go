// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Network is what NCCL chose on one node, and what of that is odd, as NCCL logs it
// with NCCL_DEBUG=INFO. A field is empty where the log does not say it.
type Network struct {
	Node        string            `json:"node,omitempty"` // as NCCL names it: the host name up to the first dot
	NCCL        string            `json:"nccl_version,omitempty"`
	Nodes       int               `json:"nodes,omitempty"`      // of the largest communicator; logged since NCCL 2.20
	Bootstrap   *Interface        `json:"bootstrap,omitempty"`  // over which ranks first meet
	Net         string            `json:"network,omitempty"`    // IB, Socket or a plugin's name
	Provider    string            `json:"provider,omitempty"`   // that libfabric chose, where the plugin uses libfabric
	Interfaces  []Interface       `json:"interfaces,omitempty"` // for sockets
	HCAs        []HCA             `json:"hcas,omitempty"`
	NoHCA       bool              `json:"no_hca,omitempty"`      // NCCL looked for RDMA devices and found none
	Connections []string          `json:"connections,omitempty"` // kinds: NET/IB/GDRDMA, NET/Socket, P2P/CUMEM, P2P/IPC, SHM/direct, …
	Variables   map[string]string `json:"variables,omitempty"`   // that NCCL said it obeys
	Slow        []string          `json:"slow,omitempty"`        // what costs speed, or is likely to
}

// Interface is one interface for sockets.
type Interface struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
}

// HCA is one port of an RDMA device, or several ports that NCCL joined to one.
type HCA struct {
	Name string `json:"name"`           // mlx5_0:1
	Link string `json:"link,omitempty"` // IB or RoCE
	GDR  string `json:"gdr,omitempty"`  // GPUDirect RDMA: enabled or disabled
}

// String returns one line about what NCCL chose, the same for nodes of one kind.
func (n Network) String() string {
	var parts []string
	if n.NCCL != "" {
		parts = append(parts, "NCCL "+n.NCCL)
	}
	if n.Net != "" {
		part := "network " + n.Net
		if n.Net == socket && len(n.Interfaces) > 0 {
			part += " on " + some(interfaceNames(n.Interfaces))
		} else if n.Net != socket && len(n.HCAs) > 0 {
			part += " on " + some(hcaNames(n.HCAs))
		}
		if n.Net == socket && n.NoHCA {
			part += " (NCCL found no active RDMA port)"
		}
		parts = append(parts, part)
	}
	if len(n.Connections) > 0 {
		parts = append(parts, "connections by "+strings.Join(n.Connections, ", "))
	}
	if n.Bootstrap != nil {
		parts = append(parts, "bootstrap on "+n.Bootstrap.Name)
	}
	return strings.Join(parts, "; ")
}

func interfaceNames(interfaces []Interface) (names []string) {
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	return names
}

func hcaNames(hcas []HCA) (names []string) {
	for _, h := range hcas {
		names = append(names, h.Name)
	}
	return names
}

// some returns the first of many names.
func some(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

const (
	socket = "Socket"
	// What a hostile log can make us remember.
	mostNetworks  = 4096
	mostDevices   = 64
	mostVariables = 64
	mostKinds     = 24      // of connections
	mostKeptText  = 8 << 20 // bytes
	longestValue  = 120
	longestName   = 64
)

// networks collects what NCCL says from the lines of all logs.
type networks struct {
	nodes    map[string]*gathered
	order    []*gathered
	versions map[string]string // of NCCL, by node of the file: before 2.24 only rank 0 logs it, on a line without a host
	texts    map[string]string // everything that is kept, once
	kept     int               // bytes of texts
}

func newNetworks() networks {
	return networks{nodes: map[string]*gathered{}, versions: map[string]string{}, texts: map[string]string{}}
}

// gathered is a Network in the making.
type gathered struct {
	Network
	file   string // the node of the first file that has a line of this one
	nets   []string
	staged bool // a rank receives over RDMA without GPUDirect RDMA
	noPeer bool // the driver refuses P2P between GPUs that are connected
}

// summary returns one Network a node, in the order in which the nodes first spoke.
func (n *networks) summary() []Network {
	inFile := map[string]bool{}
	for _, g := range n.order {
		inFile[g.file] = true
		g.finish()
		if g.NCCL == "" {
			g.NCCL = n.versions[g.file]
		}
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

// finish sets the network, which a log that is cut or older than NCCL 2.6 does not name.
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
