// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"preflight/internal/lazyregexp"
)

// take reads one line. Most lines are not NCCL's, and NCCL can log a hundred megabytes about
// channels. So take uses no regular expression on either kind of line.
func (n *networks) take(file string, text []byte) {
	at := bytes.Index(text, []byte("NCCL "))
	if at < 0 {
		return
	}
	switch rest := text[at+len("NCCL "):]; {
	case bytes.HasPrefix(rest, []byte("INFO ")):
		message, _, _ := strings.Cut(string(rest[len("INFO "):]), " [repeated ") // Ray adds "[repeated 15x across cluster]"
		message = strings.TrimRight(message, " ")
		if !strings.Contains(message, " NCCL INFO ") { // if the message has " NCCL INFO " again, two ranks wrote into one line
			n.info(file, text[:at], message)
		}
	case bytes.HasPrefix(rest, []byte("version ")):
		if n.versions[file] != "" || len(n.versions) >= mostNetworks {
			return
		}
		if version := release(string(rest[len("version "):])); version != "" {
			n.versions[file] = version
		}
	}
}

// info reads a message of NCCL_DEBUG=INFO.
func (n *networks) info(file string, prefix []byte, message string) {
	// For example "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC". The first word is "Ring" before 2.7,
	// and "Coll" or "CollNet" with SHARP.
	if route, via, found := strings.Cut(message, " via "); found && strings.Contains(route, " : ") && (message[0] == 'C' || message[0] == 'R') {
		if g := n.node(file, prefix); g != nil {
			g.connection(strings.HasSuffix(route, "[receive]"), via)
		}
		return
	}
	for _, form := range forms {
		if rest, found := strings.CutPrefix(message, form.head); found {
			if g := n.node(file, prefix); g != nil {
				form.take(g, rest)
			}
			return
		}
	}
}

// forms maps the beginnings of messages to the functions that read them, for NCCL 2.3 to 2.30.
var forms = []struct {
	head string
	take func(g *gathered, rest string)
}{
	{"NCCL_", (*gathered).variable},
	{"comm ", (*gathered).communicator},
	{"Using network ", func(g *gathered, name string) { addNew(&g.nets, kept(name, longestName), 4) }},
	{"NET/IB : Using ", (*gathered).hcas},
	{"NET/IB : No device found", func(g *gathered, _ string) { g.NoHCA = true }},
	{"NET/Socket : Using ", (*gathered).interfaces},
	{"NET : Using interface ", (*gathered).interfaces}, // 2.3
	{"NET/OFI Selected ", (*gathered).provider},
	{"NET/", (*gathered).gpuDirect},
	{"Bootstrap : Using ", (*gathered).bootstrap},
	{"Bootstrap: Using ", (*gathered).bootstrap}, // since 2.24
	{"NCCL version ", (*gathered).ownVersion},    // since 2.24, logged by all ranks
	{"P2P is disabled between ", (*gathered).refused},
	{"peer query failed between ", (*gathered).refused},
	{"Could not enable P2P between ", (*gathered).refused},
}

// node returns the entry of the node that wrote a line with this prefix, or nil if there are too
// many nodes.
func (n *networks) node(file string, prefix []byte) *gathered {
	name := hostOf(prefix)
	if len(name) == 0 {
		name = []byte(file)
	}
	if g := n.nodes[string(name)]; g != nil {
		return g
	}
	if len(n.order) >= mostNetworks {
		return nil
	}
	g := &gathered{Network: Network{Node: kept(string(name), longestName)}, file: file}
	n.nodes[string(name)], n.order = g, append(n.order, g)
	return g
}

// hostOf returns the host in NCCL's own prefix, host:pid:tid [device], or nil. It reads backwards,
// because launchers and NCCL_DEBUG_TIMESTAMP_FORMAT put arbitrary text before the prefix.
func hostOf(prefix []byte) []byte {
	prefix = bytes.TrimRight(prefix, " ")
	if open := bytes.LastIndexByte(prefix, '['); open >= 0 && bytes.HasSuffix(prefix, []byte("]")) {
		prefix = bytes.TrimRight(prefix[:open], " ")
	}
	for range 2 { // tid and pid
		number := bytes.TrimRight(prefix, "0123456789")
		if len(number) == len(prefix) || !bytes.HasSuffix(number, []byte(":")) {
			return nil
		}
		prefix = number[:len(number)-1]
	}
	start := len(prefix)
	for start > 0 && len(prefix)-start <= longestName && (digit(prefix[start-1]) || letter(prefix[start-1]) || prefix[start-1] == '-' || prefix[start-1] == '.') {
		start--
	}
	return prefix[start:]
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' }

// kept returns a copy of the start of a text. The copy does not keep the whole line in memory.
func kept(text string, most int) string { return own(text[:min(len(text), most)]) }

// addNew appends a value if the list does not contain it yet and has fewer than most values.
func addNew[T comparable](list *[]T, one T, most int) {
	if len(*list) < most && !slices.Contains(*list, one) {
		*list = append(*list, one)
	}
}

// release returns 2.21.5 for "2.21.5+cuda12.4". It requires "+cuda", because other programs also
// log "NCCL version", and some torch versions write 2.10.3 as 21.0.3.
func release(text string) string {
	nccl, _, found := strings.Cut(text, "+cuda")
	if !found || nccl == "" || len(nccl) > 32 || !digit(nccl[0]) || strings.Contains(nccl, " ") {
		return ""
	}
	return kept(nccl, 32)
}

func (g *gathered) ownVersion(rest string) {
	g.NCCL = cmp.Or(g.NCCL, release(rest))
}

// communicator reads messages such as "0x55d0 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0
// MNNVL 0".
func (g *gathered) communicator(rest string) {
	if _, count, found := strings.Cut(rest, " nNodes "); found {
		count, _, _ = strings.Cut(count, " ")
		if nodes, err := strconv.Atoi(count); err == nil {
			g.Nodes = max(g.Nodes, nodes)
		}
	}
}

func (g *gathered) connection(receives bool, via string) {
	if kind := kindOf(via); kind != "" {
		addNew(&g.Connections, kept(kind, longestName), mostKinds)
		g.staged = g.staged || receives && overRDMA(kind) && !strings.HasSuffix(kind, gdr)
	}
}

const gdr = "/GDRDMA"

// local lists the kinds of connections within a node. MNNVL connections may also cross nodes. Until
// 2.7, "P2P/common device" means two ranks on one GPU.
var local = []string{
	"P2P/CUMEM", "P2P/IPC", "P2P/direct pointer", "P2P/MNNVL", "P2P/indirect", "P2P/common device", "SHM/direct", "SHM/CE",
}

// kindOf returns NET/IB/GDRDMA for NET/IB/0(8)/GDRDMA/Shared and P2P/CUMEM for P2P/CUMEM/read,
// without device, intermediate GPU and buffer layout. It returns "" for a damaged line.
func kindOf(via string) string {
	for _, way := range local {
		if strings.HasPrefix(via, way) {
			return way
		}
	}
	if strings.HasPrefix(via, "direct shared memory") { // until 2.12
		return "SHM"
	}
	family, rest, _ := strings.Cut(via, "/")
	name, device, _ := strings.Cut(rest, "/") // a plugin's name may contain spaces
	if family != "NET" && family != "COLLNET" || name == "" || len(name) > longestName/2 || device == "" || !digit(device[0]) {
		return ""
	}
	kind := family + "/" + name
	if strings.Contains(device, gdr) {
		kind += gdr
	}
	return kind
}

// variable reads messages such as "IB_DISABLE set by environment to 1." and "IB_HCA set to mlx5".
// All NCCL versions except the latest put a full stop after numbers.
func (g *gathered) variable(rest string) {
	name, value, found := strings.Cut(rest, " set by environment to ")
	if !found {
		name, value, found = strings.Cut(rest, " set to ")
	}
	name = "NCCL_" + name
	if _, known := g.Variables[name]; !found || known || len(name) > longestName || strings.Contains(name, " ") || len(g.Variables) >= mostVariables {
		return
	}
	if strings.Trim(value, "-0123456789") == "." {
		value = strings.TrimSuffix(value, ".")
	}
	if g.Variables == nil {
		g.Variables = map[string]string{}
	}
	g.Variables[kept(name, longestName)] = kept(value, longestValue)
}

// listed matches a device with its index: "[0]mlx5_0:1/RoCE", and since 2.22 "[0]={[0]
// mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}".
var listed = lazyregexp.New(`\[\d+\] ?([\w.:+-]{1,64})/([\w/]+)`)

// hcas reads lists such as "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB …".
func (g *gathered) hcas(list string) {
	list, _, _ = strings.Cut(list, ";")
	for _, found := range listed.FindAllStringSubmatch(list, mostDevices) {
		if h := g.hca(found[1]); h != nil && h.Link == "" {
			h.Link = kept(found[2], longestName)
		}
	}
}

// hca returns the device with this name. If the device is new, hca adds it. It returns nil if there
// are too many devices.
func (g *gathered) hca(name string) *HCA {
	if i := slices.IndexFunc(g.HCAs, func(h HCA) bool { return h.Name == name }); i >= 0 {
		return &g.HCAs[i]
	}
	if len(g.HCAs) >= mostDevices {
		return nil
	}
	g.HCAs = append(g.HCAs, HCA{Name: kept(name, longestName)})
	return &g.HCAs[len(g.HCAs)-1]
}

// gpuDirect reads messages such as "IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)".
func (g *gathered) gpuDirect(rest string) {
	net, state, _ := strings.Cut(rest, " : GPU Direct RDMA ")
	state, device, _ := strings.Cut(state, " for ")
	_, device, _ = strings.Cut(device, " '")
	device, _, named := strings.Cut(device, "'")
	if net == socket || state != "Enabled" && state != "Disabled" || !named || device == "" {
		return
	}
	state = strings.ToLower(state)
	known := false
	for i := range g.HCAs { // the list has the port after the name
		if name, _, _ := strings.Cut(g.HCAs[i].Name, ":"); name == device {
			g.HCAs[i].GDR, known = state, true
		}
	}
	if known {
		return
	}
	if h := g.hca(device); h != nil {
		h.GDR = state
	}
}

// provider reads messages of aws-ofi-nccl such as "provider is efa, fabric is efa (found 4 nics)".
func (g *gathered) provider(rest string) {
	if _, name, found := strings.Cut(rest, "rovider is "); found && g.Provider == "" {
		name, _, _ = strings.Cut(name, " ")
		g.Provider = kept(strings.TrimSuffix(name, ","), longestName)
	}
}

// interfaces reads lists such as "[0]eth0:10.0.0.1<0> [1]ib0:10.1.0.1<0>".
func (g *gathered) interfaces(list string) {
	for field := range strings.FieldsSeq(list) {
		if i := iface(field); i.Name != "" {
			addNew(&g.Interfaces, i, mostDevices)
		}
	}
}

func (g *gathered) bootstrap(rest string) {
	first, _, _ := strings.Cut(rest, " ")
	if i := iface(first); g.Bootstrap == nil && i.Name != "" {
		g.Bootstrap = &i
	}
}

// iface reads an entry such as "[0]eth0:10.0.0.1<0>". The name is empty if the text has another
// form.
func iface(text string) Interface {
	if _, rest, indexed := strings.Cut(text, "]"); indexed && text[0] == '[' {
		text = rest
	}
	name, address, _ := strings.Cut(text, ":")
	address, _, found := strings.Cut(address, "<")
	if !found {
		return Interface{}
	}
	return Interface{kept(name, 32), kept(address, longestName)}
}

func (g *gathered) refused(string) { g.noPeer = true }
