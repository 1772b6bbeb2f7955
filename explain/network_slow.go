// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
)

// remark says of each node what looks slow, and what is worth knowing.
func remark(all []*gathered) {
	var job fleet
	nets, versions := map[string]int{}, map[string]int{}
	for _, g := range all {
		job.nodes = max(job.nodes, g.Nodes)
		if g.Net != "" {
			nets[g.Net]++
		}
		if g.NCCL != "" {
			versions[g.NCCL]++
		}
	}
	job.net = usual(nets)
	job.alike = nets[job.net]
	job.nets, job.versions = few(nets), few(versions)
	if job.nodes == 0 { // NCCL before 2.20 does not tell; logs of several nodes do
		job.nodes = len(all)
	}
	for _, g := range all {
		for _, look := range []func(*gathered, fleet){
			(*gathered).sockets, (*gathered).differs, (*gathered).virtual, (*gathered).direct,
			(*gathered).withinNode, (*gathered).switches, (*gathered).unfinished,
		} {
			look(g, job)
		}
	}
}

// fleet is what only all nodes together tell.
type fleet struct {
	nodes    int      // of the largest communicator
	net      string   // that most nodes use; "" where there is no majority
	alike    int      // nodes that do
	nets     []string // that any node uses
	versions []string // of NCCL
}

func few(counts map[string]int) []string {
	names := sorted(counts)
	return names[:min(len(names), 20)]
}

// usual is what more than half use.
func usual(counts map[string]int) string {
	total, most := 0, ""
	for name, count := range counts {
		if total += count; count > counts[most] {
			most = name
		}
	}
	if 2*counts[most] <= total {
		return ""
	}
	return most
}

func (g *gathered) slow(format string, values ...any) {
	g.Slow = append(g.Slow, fmt.Sprintf(format, values...))
}

func (g *gathered) note(format string, values ...any) {
	g.Notes = append(g.Notes, fmt.Sprintf(format, values...))
}

// count is how many connections are of a kind.
func (g *gathered) count(is func(via string) bool) int {
	sum := 0
	for _, c := range g.Connections {
		if is(c.Via) {
			sum += c.Count
		}
	}
	return sum
}

func overNetwork(via string) bool { return strings.HasPrefix(via, "NET/") }
func throughHost(via string) bool { return strings.HasPrefix(via, "SHM") }

// on is whether a switch of the environment is set: NCCL takes numbers.
func (g *gathered) on(variable string) bool {
	value := g.Variables[variable]
	return value != "" && value != "0"
}

func (g *gathered) names() string {
	var names []string
	for _, h := range g.HCAs {
		names = append(names, h.Name)
	}
	return some(names)
}

// some are the first of many.
func some(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// sockets asks why a node that has to reach others does so by TCP.
func (g *gathered) sockets(job fleet) {
	if g.Net != socket || job.nodes < 2 && g.count(overNetwork) == 0 {
		return
	}
	const slowly = "nodes reach each other by TCP sockets, not by RDMA: "
	switch wanted := g.Variables["NCCL_IB_HCA"]; {
	case g.on("NCCL_IB_DISABLE"):
		g.slow(slowly + "NCCL_IB_DISABLE=1 switches InfiniBand and RoCE off")
	case strings.EqualFold(g.Variables["NCCL_NET"], socket):
		g.slow(slowly + "NCCL_NET=Socket says so")
	case len(g.HCAs) > 0:
		g.slow(slowly+"NCCL lists %s and does not use it", g.names())
	case g.NoHCA && wanted != "":
		g.slow(slowly+"no RDMA port that is active fits NCCL_IB_HCA=%s", wanted)
	case g.NoHCA && job.net != socket && job.net != "":
		g.slow(slowly + "NCCL found no InfiniBand or RoCE port that is active on this node")
	case g.NoHCA:
		g.note("nodes reach each other by TCP sockets: NCCL found no InfiniBand or RoCE port that is active")
	default:
		g.note("nodes reach each other by TCP sockets; that NCCL looked for RDMA devices is not in the log")
	}
	if p := g.Variables["NCCL_NET_PLUGIN"]; strings.EqualFold(p, "none") {
		g.note("NCCL_NET_PLUGIN=none keeps network plugins out")
	}
}

// differs holds a node against the others.
func (g *gathered) differs(job fleet) {
	if len(job.nets) > 1 && g.Net != "" && g.Net != job.net {
		if job.net != "" {
			g.slow("uses %s where %d other nodes use %s", g.Net, job.alike, job.net)
		} else {
			g.slow("uses %s, other nodes use %s", g.Net, some(without(job.nets, g.Net)))
		}
	}
	if len(job.versions) > 1 && g.NCCL != "" {
		g.slow("runs NCCL %s, other nodes run %s: all have to run one version", g.NCCL, some(without(job.versions, g.NCCL)))
	}
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// virtualNames begin the names of interfaces that end on the machine itself.
var virtualNames = []string{"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "podman", "lxc", "lxdbr", "kube-", "weave", "tailscale", "wg", "tun", "tap", "zt"}

func virtual(name string) bool {
	return name == "lo" || slices.ContainsFunc(virtualNames, func(v string) bool { return strings.HasPrefix(name, v) })
}

// virtual asks whether sockets use interfaces on which other nodes are not met.
func (g *gathered) virtual(job fleet) {
	if job.nodes < 2 {
		return
	}
	if b := g.Bootstrap; b != nil && virtual(b.Name) {
		g.slow("ranks first meet on %s %s, which leads to no other node or by a detour: set NCCL_SOCKET_IFNAME", b.Name, b.Address)
	}
	if g.Net != socket && (g.Net != "" || len(g.HCAs) > 0) {
		return
	}
	for _, i := range g.Interfaces {
		if virtual(i.Name) && (g.Bootstrap == nil || g.Bootstrap.Name != i.Name) {
			g.slow("sockets use %s %s, too, which leads to no other node or by a detour: set NCCL_SOCKET_IFNAME", i.Name, i.Address)
		}
	}
}

// direct asks whether the network reads and writes the memory of GPUs itself.
func (g *gathered) direct(fleet) {
	if p := g.Provider; p == "tcp" || p == "sockets" || strings.HasPrefix(p, "tcp;") {
		g.slow("libfabric's provider is %s: TCP sockets", p)
	}
	rdma := func(via string) bool {
		return overNetwork(via) && !strings.HasPrefix(via, "NET/"+socket) && !strings.HasPrefix(via, "NET/GPUDirectTCPX") && !strings.HasPrefix(via, "NET/FasTrak")
	}
	direct := func(via string) bool { return rdma(via) && strings.HasSuffix(via, "/GDRDMA") }
	all, good := g.count(rdma), g.count(direct)
	if good > 0 && all > good {
		g.note("%d of %d connections over the network go without GPUDirect RDMA", all-good, all)
	}
	var barred []string
	for _, h := range g.HCAs {
		if h.GDR == "disabled" {
			barred = append(barred, h.Name)
		}
	}
	// What is sent goes through the host on many machines where all is well, because
	// reading from a GPU is slow across PCIe: NCCL_NET_GDR_READ.
	switch {
	case good > 0 && len(barred) > 0:
		g.note("no GPUDirect RDMA on %s, but on others", some(barred))
		return
	case all == 0 || good > 0 || g.viaHost == 0 && len(barred) == 0:
		return
	}
	switch level := g.Variables["NCCL_NET_GDR_LEVEL"]; {
	case len(barred) > 0:
		g.slow("no GPUDirect RDMA on %s, so that all data takes the way through the memory of the host: is the module nvidia_peermem loaded, or has the kernel DMA-BUF?", some(barred))
	case level != "":
		g.slow("no connection over the network uses GPUDirect RDMA: NCCL_NET_GDR_LEVEL=%s", level)
	default:
		g.slow("no connection over the network uses GPUDirect RDMA: the module nvidia_peermem is not loaded, or GPUs and RDMA devices are too far apart on the PCI bus")
	}
}

// withinNode asks how the GPUs of the node reach each other.
func (g *gathered) withinNode(job fleet) {
	switch {
	case g.on("NCCL_P2P_DISABLE"):
		g.slow("NCCL_P2P_DISABLE=1: GPUs of a node reach each other neither by NVLink nor by PCIe directly")
	case g.Variables["NCCL_P2P_LEVEL"] == "LOC" || g.Variables["NCCL_P2P_LEVEL"] == "0":
		g.slow("NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC: GPUs of a node reach each other neither by NVLink nor by PCIe directly")
	case len(g.noPeer) > 0:
		g.slow("the driver lets no P2P pass between GPUs %s, though they are connected", some(g.noPeer))
	case g.count(throughHost) > 0:
		g.slow("%d connections between GPUs of the node go through the memory of the host (SHM): there is no NVLink between them, and they hang on different PCIe roots or P2P is forbidden", g.count(throughHost))
	}
	if g.on("NCCL_SHM_DISABLE") {
		g.slow("NCCL_SHM_DISABLE=1: GPUs of a node without P2P between them reach each other over the network")
	} else if net := g.count(overNetwork); net > 0 && job.nodes == 1 && g.Nodes == 1 {
		g.slow("%d connections between GPUs of one node go over the network", net)
	}
}

// switches are variables that take something away.
func (g *gathered) switches(fleet) {
	if g.Variables["NCCL_NVLS_ENABLE"] == "0" {
		g.note("NCCL_NVLS_ENABLE=0 keeps NVLink SHARP off")
	}
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_NTHREADS", "NCCL_BUFFSIZE"} {
		if value := g.Variables[name]; value != "" {
			g.note("%s=%s overrides what NCCL would choose", name, value)
		}
	}
}

// unfinished is whether ranks were still joining when the log ended.
func (g *gathered) unfinished(fleet) {
	if missing := g.Started - g.Joined; missing > 0 {
		g.note("%d of %d joins of a communicator did not come to their end", missing, g.Started)
	}
}
