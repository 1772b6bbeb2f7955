// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// connection counts P2P/IPC, P2P/CUMEM/read, NET/IB/0(8)/GDRDMA/Shared and so on by
// what they have in common: without the device, the intermediate GPU and how the
// buffers lie.
func (n *networks) connection(g *gathered, receives bool, via []byte) {
	kind, found := kindOf(via)
	if !found {
		return
	}
	if receives && kind.gdr == "" {
		g.viaHost++
	}
	for i := range g.Connections {
		if c := &g.Connections[i]; c.Via == kind.family+string(kind.name)+kind.gdr { // short ones allocate nothing
			c.Count++
			return
		}
	}
	if len(g.Connections) < mostKinds {
		name := kind.family + string(kind.name) + kind.gdr
		g.Connections = append(g.Connections, Connections{n.keep([]byte(name), longestName), 1})
	}
}

// kind is a way of connecting in the pieces it is put together of.
type kind struct {
	family string
	name   []byte
	gdr    string
}

const gdr = "/GDRDMA"

var (
	// local are the ways within a node, and across nodes for MNNVL. P2P/common device is
	// two ranks on one GPU, until 2.7.
	local = []string{
		"P2P/CUMEM", "P2P/IPC", "P2P/direct pointer", "P2P/MNNVL", "P2P/indirect", "P2P/common device", "SHM/direct", "SHM/CE",
	}
	sharedMemory = []byte("direct shared memory") // until 2.12
	remote       = []string{"NET/", "COLLNET/"}
)

func kindOf(via []byte) (kind, bool) {
	for _, way := range local {
		if bytes.HasPrefix(via, []byte(way)) {
			return kind{family: way}, true
		}
	}
	if bytes.HasPrefix(via, sharedMemory) {
		return kind{family: "SHM"}, true
	}
	for _, family := range remote {
		rest, ok := bytes.CutPrefix(via, []byte(family))
		if !ok {
			continue
		}
		// A plugin's name may have blanks and slashes; what follows is a number.
		for i := 1; i+1 < len(rest) && i <= longestName/2; i++ {
			if rest[i] != '/' || !digit(rest[i+1]) {
				continue
			}
			k := kind{family: family, name: rest[:i]}
			if bytes.Contains(rest[i:], []byte(gdr)) {
				k.gdr = gdr
			}
			return k, true
		}
	}
	return kind{}, false
}

// joining reads how large a communicator is, and whether a rank has joined it.
func (g *gathered) joining(message []byte) {
	for _, words := range []string{" nranks ", " nRanks "} {
		if ranks, values := number(message, words); values {
			g.Ranks = max(g.Ranks, ranks)
		}
	}
	if nodes, values := number(message, " nNodes "); values {
		g.Nodes = max(g.Nodes, nodes)
	}
	switch {
	case bytes.HasSuffix(message, []byte("Init START")):
		g.Started++
	case bytes.HasSuffix(message, []byte("Init COMPLETE")):
		g.Joined++
	}
}

// variable reads "NCCL_X set by environment to 1." and "NCCL_IB_HCA set to mlx5".
// Numbers have a full stop behind them, in all versions but the latest.
func (n *networks) variable(g *gathered, rest []byte) {
	name, value, found := bytes.Cut(rest, []byte(" set by environment to "))
	if !found {
		name, value, found = bytes.Cut(rest, []byte(" set to "))
	}
	if !found || len(name) == 0 || len(name) > 48 || bytes.IndexByte(name, ' ') >= 0 {
		return
	}
	if stopped, ok := bytes.CutSuffix(value, []byte(".")); ok {
		if _, err := strconv.ParseInt(string(stopped), 10, 64); err == nil {
			value = stopped
		}
	}
	full := n.keep(append([]byte("NCCL_"), name...), longestName)
	if g.Variables == nil {
		g.Variables = map[string]string{}
	}
	if _, known := g.Variables[full]; !known && full != "" && len(g.Variables) < mostVariables {
		g.Variables[full] = n.keep(value, longestValue)
	}
}

// hcas reads "[0]mlx5_0:1/RoCE [1]={[1] mlx5_1:1/RoCE, [2] mlx5_2:1/RoCE} [RO]; OOB …".
func (n *networks) hcas(g *gathered, list []byte) {
	list, _, _ = bytes.Cut(list, []byte(";"))
	for len(list) > 0 && len(g.HCAs) < mostDevices {
		open := bytes.IndexByte(list, '[')
		if open < 0 {
			return
		}
		index, rest, found := bytes.Cut(list[open+1:], []byte("]"))
		if !found {
			return
		}
		list = bytes.TrimPrefix(rest, []byte("={")) // ports joined to one, 2.22 and 2.23: each for itself
		if len(index) == 0 || !digit(index[0]) || bytes.HasPrefix(list, []byte("[")) {
			continue
		}
		device := bytes.TrimLeft(list, " ")
		if end := bytes.IndexAny(device, " ,}"); end >= 0 {
			device = device[:end]
		}
		name, link, _ := bytes.Cut(device, []byte("/"))
		if len(name) > 0 && len(name) <= longestName {
			h := n.hca(g, name)
			h.Link = n.keep(link, longestName)
		}
	}
}

// hca finds a device by its name, or adds it.
func (n *networks) hca(g *gathered, name []byte) *HCA {
	for i := range g.HCAs {
		if g.HCAs[i].Name == string(name) {
			return &g.HCAs[i]
		}
	}
	g.HCAs = append(g.HCAs, HCA{Name: n.keep(name, longestName)})
	return &g.HCAs[len(g.HCAs)-1]
}

// direct reads "IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)".
func (n *networks) direct(g *gathered, rest []byte) {
	net, card, found := bytes.Cut(rest, []byte(" : GPU Direct RDMA "))
	if !found || string(net) == socket {
		return
	}
	state, card, _ := bytes.Cut(card, []byte(" for "))
	_, device, _ := bytes.Cut(card, []byte(" '"))
	device, _, named := bytes.Cut(device, []byte("'"))
	if !named || len(device) == 0 || len(device) > longestName {
		return
	}
	word := "disabled"
	if string(state) == "Enabled" {
		word = "enabled"
	}
	listed := false // with the port behind the name
	for i := range g.HCAs {
		if name, _, _ := strings.Cut(g.HCAs[i].Name, ":"); name == string(device) {
			g.HCAs[i].GDR, listed = word, true
		}
	}
	if !listed && len(g.HCAs) < mostDevices {
		n.hca(g, device).GDR = word
	}
}

// provider reads "provider is efa, fabric is efa (found 4 nics)" of aws-ofi-nccl.
func (n *networks) provider(g *gathered, rest []byte) {
	if _, name, found := bytes.Cut(rest, []byte("rovider is ")); found {
		if end := bytes.IndexAny(name, " ,"); end >= 0 {
			name = name[:end]
		}
		g.Provider = n.keep(name, longestName)
	}
}

// interfaces reads "[0]eth0:10.0.0.1<0> [1]ib0:10.1.0.1<0>".
func (n *networks) interfaces(g *gathered, list []byte) {
	for field := range bytes.FieldsSeq(list) {
		i, ok := n.iface(field)
		if ok && len(g.Interfaces) < mostDevices && !slices.Contains(g.Interfaces, i) {
			g.Interfaces = append(g.Interfaces, i)
		}
	}
}

// iface reads "[0]eth0:10.0.0.1<0>". IPv6 addresses have colons, and so have the names
// of interfaces' aliases.
func (n *networks) iface(text []byte) (Interface, bool) {
	if open := bytes.IndexByte(text, ']'); open >= 0 && text[0] == '[' {
		text = text[open+1:]
	}
	text, _, _ = bytes.Cut(text, []byte("<"))
	colon := bytes.IndexByte(text, ':')
	if last := bytes.LastIndexByte(text, ':'); last > colon && bytes.Count(text[last:], []byte(".")) == 3 {
		colon = last
	}
	if colon <= 0 || colon > 32 {
		return Interface{}, false
	}
	return Interface{n.keep(text[:colon], 32), n.keep(text[colon+1:], longestName)}, true
}

func (n *networks) bootstrap(g *gathered, rest []byte) {
	if g.Bootstrap != nil {
		return
	}
	first, _, _ := bytes.Cut(rest, []byte(" "))
	if i, ok := n.iface(first); ok {
		g.Bootstrap = &i
	}
}

func (g *gathered) multicast(rest []byte) {
	if bytes.HasPrefix(rest, []byte("not ")) {
		g.nvlsOff++
	} else {
		g.nvlsOn++
	}
}

// driver reads 12080, which is 12.8.
func (n *networks) driver(g *gathered, rest []byte) {
	if v, err := strconv.Atoi(string(rest[:min(len(rest), 9)])); err == nil && v >= 1000 && g.DriverCUDA == "" {
		g.DriverCUDA = n.keep([]byte(strconv.Itoa(v/1000)+"."+strconv.Itoa(v%1000/10)), 16)
	}
}

func (n *networks) ownVersion(g *gathered, rest []byte) {
	if v, ok := n.version(rest); ok && g.NCCL == "" {
		g.NCCL, g.CUDA = v.nccl, v.cuda
	}
}

// noPeer reads "connected GPUs 0 and 1. You can …" and "dev 0(=1a000) and dev 1(=3d000)".
func (n *networks) noPeer(g *gathered, rest []byte) {
	one, other, found := bytes.Cut(rest, []byte(" and "))
	if !found || len(g.noPeer) >= mostPairs {
		return
	}
	one, other = lastNumber(one), firstNumber(other)
	if len(one) == 0 || len(other) == 0 {
		return
	}
	pair := n.keep(bytes.Join([][]byte{one, other}, []byte("-")), 16)
	if !slices.Contains(g.noPeer, pair) {
		g.noPeer = append(g.noPeer, pair)
	}
}

// lastNumber is the GPU of "NVLINK connected GPUs 0" and of "dev 0(=1a000)".
func lastNumber(text []byte) []byte {
	text, _, _ = bytes.Cut(text, []byte("("))
	start := len(text)
	for start > 0 && digit(text[start-1]) {
		start--
	}
	return text[start:]
}

// firstNumber is the GPU of "1. You can" and of "dev 1(=3d000)".
func firstNumber(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("dev "))
	end := 0
	for end < len(text) && digit(text[end]) {
		end++
	}
	return text[:end]
}
