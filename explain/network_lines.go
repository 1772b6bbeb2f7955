// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// take looks at one line. Most lines of most logs are none of NCCL's, and those
// that are can be a hundred megabytes: no regular expression here, and nothing is
// allocated for what is known already.
func (n *networks) take(file string, text []byte) {
	at := bytes.Index(text, []byte("NCCL "))
	if at < 0 {
		return
	}
	switch rest := text[at+len("NCCL "):]; {
	case bytes.HasPrefix(rest, []byte("INFO ")):
		message := bytes.TrimRight(rest[len("INFO "):], " ")
		if !bytes.Contains(message, []byte(" NCCL INFO ")) { // else two ranks wrote into each other
			n.info(file, text, at, message)
		}
	case bytes.HasPrefix(rest, []byte("version ")):
		if v, ok := n.version(rest[len("version "):]); ok {
			n.remember(file, v)
		}
	}
}

// version reads 2.21.5+cuda12.4. Other programs' "NCCL version 2.21.5" is not taken:
// some torch versions spell 2.10.3 as 21.0.3.
func (n *networks) version(text []byte) (version, bool) {
	nccl, built, found := bytes.Cut(text, []byte("+cuda"))
	if !found || len(nccl) == 0 || len(nccl) > 32 || !digit(nccl[0]) || bytes.IndexByte(nccl, ' ') >= 0 {
		return version{}, false
	}
	end := 0
	for end < len(built) && (digit(built[end]) || built[end] == '.') {
		end++
	}
	return version{n.keep(nccl, 32), n.keep(built[:end], 16)}, true
}

func (n *networks) remember(file string, v version) {
	if n.versions == nil {
		n.versions = map[string]version{}
	}
	if _, known := n.versions[file]; !known && len(n.versions) < mostNetworks {
		n.versions[file] = v
	}
}

// info looks at a message of NCCL_DEBUG=INFO.
func (n *networks) info(file string, text []byte, at int, message []byte) {
	if len(message) == 0 {
		return
	}
	// Each branch first makes sure that the message is one of those wanted: only
	// then a node is looked up.
	switch message[0] {
	case 'C', 'R': // Channel 00/0 : 0[0] -> 1[1] via P2P/IPC; Ring before 2.7, Coll and CollNet with SHARP
		if via := bytes.Index(message, []byte(" via ")); via >= 0 && bytes.Contains(message[:via], []byte(" : ")) {
			if g := n.node(file, text, at); g != nil {
				n.connection(g, bytes.HasSuffix(message[:via], []byte("[receive]")), message[via+len(" via "):])
			}
			return
		}
	case 'T', 'U':
		n.chosen(file, text, at, message)
		return
	}
	for _, form := range forms {
		if !bytes.HasPrefix(message, form.head) {
			continue
		}
		if g := n.node(file, text, at); g != nil {
			form.take(n, g, message[len(form.head):])
		}
		return
	}
	if bytes.Contains(message, []byte(" - Init ")) || bytes.Contains(message, []byte("- Init START")) {
		// since 2.16 behind the name of the function, since 2.30 behind [Rank n], too
		if g := n.node(file, text, at); g != nil {
			g.joining(message)
		}
	}
}

// forms are the messages known by how they begin, in NCCL 2.3 to 2.30.
var forms = []struct {
	head []byte
	take func(n *networks, g *gathered, rest []byte)
}{
	{[]byte("NCCL_"), (*networks).variable},
	{[]byte("comm "), func(_ *networks, g *gathered, rest []byte) { g.joining(rest) }},
	{[]byte("NET/IB : Using "), (*networks).hcas},
	{[]byte("NET/IB : No device found"), func(_ *networks, g *gathered, _ []byte) { g.NoHCA = true }},
	{[]byte("NET/Socket : Using "), func(n *networks, g *gathered, rest []byte) { n.interfaces(g, rest) }},
	{[]byte("NET : Using interface "), func(n *networks, g *gathered, rest []byte) { n.interfaces(g, rest) }}, // 2.3
	{[]byte("NET/OFI Selected "), (*networks).provider},
	{[]byte("NET/"), (*networks).direct},
	{[]byte("Bootstrap : Using "), (*networks).bootstrap},
	{[]byte("Bootstrap: Using "), (*networks).bootstrap}, // since 2.24
	{[]byte("NVLS multicast support is "), func(_ *networks, g *gathered, rest []byte) { g.multicast(rest) }},
	{[]byte("Connected NVLS tree"), func(_ *networks, g *gathered, _ []byte) { g.nvlsUsed = true }},
	{[]byte("cudaDriverVersion "), (*networks).driver},
	{[]byte("NCCL version "), func(n *networks, g *gathered, rest []byte) { n.ownVersion(g, rest) }}, // 2.24 and later, on all ranks
	{[]byte("P2P is disabled between "), (*networks).noPeer},
	{[]byte("peer query failed between "), (*networks).noPeer},
	{[]byte("Could not enable P2P between "), (*networks).noPeer},
}

// chosen are the messages that say which part was taken.
func (n *networks) chosen(file string, text []byte, at int, message []byte) {
	for _, head := range []string{"Using network ", "TUNER/Plugin: Using tuner plugin ", "Using tuner plugin: ", "TUNER/Plugin: Using "} {
		name, ok := bytes.CutPrefix(message, []byte(head))
		if !ok {
			continue
		}
		name = bytes.Trim(name, "'")
		if len(name) == 0 || bytes.HasPrefix(name, []byte("internal")) {
			return
		}
		g := n.node(file, text, at)
		switch {
		case g == nil:
		case head != "Using network ":
			g.Tuner = n.keep(name, longestName)
		case !slices.ContainsFunc(g.nets, func(known string) bool { return known == string(name) }) && len(g.nets) < 4:
			g.nets = append(g.nets, n.keep(name, longestName))
		}
		return
	}
}

// node is the collection of whoever wrote the line; nil where there are too many.
func (n *networks) node(file string, text []byte, at int) *gathered {
	name, known := hostOf(text[:at])
	if n.last != nil && known && string(name) == n.last.Node {
		return n.last
	}
	node := string(name)
	if !known {
		node = file
		if at > len("[0] ") && n.peeled < mostPeeled {
			n.peeled++
			if _, who := peel(string(text[:at])); who.node != "" {
				node = who.node
			}
		}
	}
	if g := n.nodes[node]; g != nil {
		n.last = g
		return g
	}
	if len(n.order) >= mostNetworks {
		return nil
	}
	if n.nodes == nil {
		n.nodes = map[string]*gathered{}
	}
	g := &gathered{Network: Network{Node: n.keep([]byte(node), longestName)}, file: file}
	n.nodes[node], n.last, n.order = g, g, append(n.order, g)
	return g
}

// hostOf reads backwards what NCCL writes before a message: host:pid:tid [device].
// Before that stands whatever a launcher or NCCL_DEBUG_TIMESTAMP_FORMAT has put there.
func hostOf(prefix []byte) (host []byte, known bool) {
	prefix = bytes.TrimRight(prefix, " ")
	if bytes.HasSuffix(prefix, []byte("]")) {
		open := bytes.LastIndexByte(prefix, '[')
		if open < 0 {
			return nil, false
		}
		prefix = bytes.TrimRight(prefix[:open], " ")
	}
	for range 2 { // tid and pid
		end := len(prefix)
		for end > 0 && digit(prefix[end-1]) {
			end--
		}
		if end == len(prefix) || end == 0 || prefix[end-1] != ':' {
			return nil, false
		}
		prefix = prefix[:end-1]
	}
	start := len(prefix)
	for start > 0 && len(prefix)-start <= longestName && (digit(prefix[start-1]) || letter(prefix[start-1]) || prefix[start-1] == '-' || prefix[start-1] == '.') {
		start--
	}
	return prefix[start:], start < len(prefix)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// keep is a text to remember, the same one every time: NCCL says the same on all ranks.
func (n *networks) keep(text []byte, most int) string {
	text = text[:min(len(text), most)]
	if known, ok := n.texts[string(text)]; ok {
		return known
	}
	if n.kept+len(text) > mostKeptText {
		return ""
	}
	if n.texts == nil {
		n.texts = map[string]string{}
	}
	kept := strings.ToValidUTF8(string(text), "")
	n.kept += len(text)
	n.texts[string(text)] = kept
	return kept
}

func number(text []byte, words string) (int, bool) {
	at := bytes.Index(text, []byte(words))
	if at < 0 {
		return 0, false
	}
	text = text[at+len(words):]
	end := 0
	for end < len(text) && end < 9 && digit(text[end]) {
		end++
	}
	value, err := strconv.Atoi(string(text[:end]))
	return value, err == nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' }
