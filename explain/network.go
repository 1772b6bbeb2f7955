// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Network is what NCCL said on one node with NCCL_DEBUG=INFO: what it chose, and
// what of that looks slow. What a log does not tell is left empty.
type Network struct {
	Node        string            `json:"node,omitempty"` // as NCCL names it: the host name up to the first dot
	NCCL        string            `json:"nccl_version,omitempty"`
	CUDA        string            `json:"nccl_cuda,omitempty"`   // that NCCL was built with
	DriverCUDA  string            `json:"driver_cuda,omitempty"` // the newest one that the driver knows
	Ranks       int               `json:"ranks,omitempty"`       // of the largest communicator
	Nodes       int               `json:"nodes,omitempty"`       // of the largest communicator; logged since NCCL 2.20
	Started     int               `json:"started,omitempty"`     // how often a rank began to join a communicator; logged since 2.16
	Joined      int               `json:"joined,omitempty"`      // how often one came to the end of that
	Bootstrap   *Interface        `json:"bootstrap,omitempty"`   // where ranks first meet
	Net         string            `json:"network,omitempty"`     // IB, Socket or a plugin's name
	Provider    string            `json:"provider,omitempty"`    // of libfabric, where the plugin uses that
	Interfaces  []Interface       `json:"interfaces,omitempty"`  // for sockets
	HCAs        []HCA             `json:"hcas,omitempty"`
	NoHCA       bool              `json:"no_hca,omitempty"` // NCCL looked for RDMA devices and found none
	Connections []Connections     `json:"connections,omitempty"`
	NVLS        string            `json:"nvls,omitempty"` // used, available, unavailable, or mixed between GPUs
	Tuner       string            `json:"tuner,omitempty"`
	Variables   map[string]string `json:"variables,omitempty"` // that NCCL said it obeys
	Slow        []string          `json:"slow,omitempty"`      // what costs speed, or is likely to
	Notes       []string          `json:"notes,omitempty"`     // what is worth knowing and no fault
}

// Interface is one interface for sockets.
type Interface struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
}

// HCA is one port of an RDMA device, or several that NCCL joined to one.
type HCA struct {
	Name string `json:"name"`           // mlx5_0:1
	Link string `json:"link,omitempty"` // IB or RoCE
	GDR  string `json:"gdr,omitempty"`  // GPUDirect RDMA: enabled or disabled
}

// Connections are those of one kind that the ranks of a node logged. Sender and
// receiver both log one over the network, only the sender any other.
type Connections struct {
	Via   string `json:"via"` // NET/IB/GDRDMA, NET/Socket, P2P/CUMEM, P2P/IPC, SHM/direct, …
	Count int    `json:"count"`
}

// String is in one line what nodes of one kind have in common.
func (n Network) String() string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	if n.NCCL != "" {
		add("NCCL %s", n.NCCL)
	}
	if n.Net != "" {
		on := ""
		switch {
		case n.Net == socket && len(n.Interfaces) > 0:
			on = " on " + n.Interfaces[0].Name
			if more := len(n.Interfaces) - 1; more > 0 {
				on += fmt.Sprintf(" and %d more", more)
			}
		case n.Net != socket && len(n.HCAs) > 0:
			on = " on " + n.HCAs[0].Name
			if more := len(n.HCAs) - 1; more > 0 {
				on += fmt.Sprintf(" … %s (%d)", n.HCAs[more].Name, more+1)
			}
		}
		add("network %s%s", n.Net, on)
	}
	var vias []string
	for _, c := range n.Connections {
		vias = append(vias, c.Via)
	}
	if slices.Sort(vias); len(vias) > 0 {
		add("connections by %s", strings.Join(vias, ", "))
	}
	if n.NVLS != "" {
		add("NVLS %s", n.NVLS)
	}
	if n.Bootstrap != nil {
		add("bootstrap on %s", n.Bootstrap.Name)
	}
	return strings.Join(parts, "; ")
}

const (
	socket = "Socket"
	// What a hostile log can make us remember.
	mostNetworks  = 4096
	mostDevices   = 64
	mostVariables = 64
	mostKinds     = 24 // of connections
	mostPairs     = 64
	mostKeptText  = 8 << 20 // bytes, of different texts
	longestValue  = 120
	longestName   = 64
	mostPeeled    = 10_000 // lines whose node only peel can tell
)

// networks collects what NCCL says from the lines of all logs.
type networks struct {
	nodes    map[string]*gathered
	order    []*gathered
	last     *gathered
	versions map[string]version // by node of the file: rank 0 alone tells it, on a line without a host
	texts    map[string]string  // everything kept, once
	kept     int
	peeled   int
}

// version is one NCCL library.
type version struct{ nccl, cuda string }

// gathered is a Network in the making.
type gathered struct {
	Network
	file     string // its node by the name of the first file that has a line of it
	nets     []string
	nvlsOn   int
	nvlsOff  int
	nvlsUsed bool
	viaHost  int      // connections that receive over the network without GPUDirect RDMA
	noPeer   []string // pairs of GPUs between which P2P fails
}

// summary is one Network a node, in the order in which they first spoke.
func (n *networks) summary() []Network {
	inFile := map[string]bool{}
	for _, g := range n.order {
		inFile[g.file] = true
		g.finish()
		if v, known := n.versions[g.file]; known && g.NCCL == "" {
			g.NCCL, g.CUDA = v.nccl, v.cuda
		}
	}
	all := n.order
	for _, file := range sorted(n.versions) {
		if !inFile[file] {
			v := n.versions[file]
			all = append(all, &gathered{Network: Network{Node: file, NCCL: v.nccl, CUDA: v.cuda}})
		}
	}
	remark(all)
	var done []Network
	for _, g := range all {
		done = append(done, g.Network)
	}
	return done
}

// finish settles what several lines are needed for.
func (g *gathered) finish() {
	for _, c := range g.Connections {
		if name, over := strings.CutPrefix(c.Via, "NET/"); over && len(g.nets) == 0 {
			g.nets = append(g.nets, strings.TrimSuffix(name, "/GDRDMA"))
		}
	}
	switch { // before 2.6 NCCL did not say which it takes: the first that has a device
	case len(g.nets) > 0:
	case len(g.HCAs) > 0:
		g.nets = []string{"IB"}
	case g.NoHCA:
		g.nets = []string{socket}
	}
	g.Net = strings.Join(g.nets, ", ")
	switch {
	case g.nvlsOn > 0 && g.nvlsOff > 0:
		g.NVLS = "mixed"
	case g.nvlsUsed:
		g.NVLS = "used"
	case g.nvlsOn > 0:
		g.NVLS = "available"
	case g.nvlsOff > 0:
		g.NVLS = "unavailable"
	}
	slices.SortStableFunc(g.Connections, func(a, b Connections) int { return b.Count - a.Count })
}
