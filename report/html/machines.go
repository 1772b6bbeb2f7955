// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
	"preflight/report"
)

const mostMachines = 8

// machine holds the machines that have the same drawing.
type machine struct {
	Nodes   set
	Models  string
	Inside  string // the transport between the GPUs of a node
	Between string // the transport between nodes
	Drawing drawing
	// Table is the drawing as a table, with the header first. It says how each GPU is connected
	// with the other GPUs and with the adapters. It is nil if the machine reported no topology.
	Table [][]string
}

func talking(w report.Words, groups []checks.Interconnect) []machine {
	return text.Map(groups, func(g checks.Interconnect) machine {
		return machine{Nodes: setOf(w, g.Nodes), Inside: text.Escape(report.Transport(g.Inside)), Between: text.Escape(report.Transport(g.Between))}
	})
}

// machines returns the kinds of machines with GPUs, the most frequent first. more is the number of
// kinds that are left out.
func machines(w report.Words, r checks.Report) (kinds []machine, more int) {
	linked := map[string]checks.Interconnect{}
	for _, g := range r.Interconnect {
		for _, node := range g.Nodes {
			linked[node] = g
		}
	}
	var withGPUs []*facts.Node
	for i := range r.Nodes {
		if node := &r.Nodes[i]; node.NVML != nil && len(node.NVML.Cards) > 0 {
			withGPUs = append(withGPUs, node)
		}
	}
	alike := text.GroupBy(withGPUs, func(node *facts.Node) string { return kindKey(node, linked[node.Name]) })
	slices.SortStableFunc(alike, func(a, b text.Group[string, *facts.Node]) int { return cmp.Compare(len(b.All), len(a.All)) })
	for _, kind := range alike[:min(len(alike), mostMachines)] {
		node, link := kind.All[0], linked[kind.All[0].Name]
		kinds = append(kinds, machine{
			Nodes: setOf(w, checks.NamesOf(kind.All)), Models: text.Escape(report.Models(node.NVML.Cards)),
			Inside: text.Escape(report.Transport(link.Inside)), Between: text.Escape(report.Transport(link.Between)),
			Drawing: draw(node, link.Between), Table: report.Topology(node),
		})
	}
	return kinds, len(alike) - len(kinds)
}

func kindKey(node *facts.Node, link checks.Interconnect) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q %q %q", report.Models(node.NVML.Cards), report.Transport(link.Inside), report.Transport(link.Between), report.Topology(node))
	for i := range node.NVML.Cards {
		fmt.Fprintf(&key, " %d", numaOf(node, i))
	}
	for _, adapter := range report.Adapters(node) {
		fmt.Fprintf(&key, " %q %q", adapter.Name, linkOf(adapter))
	}
	return key.String()
}

// numaOf returns the NUMA node of the i-th GPU, -1 if it is unknown.
func numaOf(node *facts.Node, card int) int {
	if node.GPU != nil {
		address := node.NVML.Cards[card].Address
		at := slices.IndexFunc(node.GPU.OnBus, func(g facts.PCIGPU) bool { return g.Address == address })
		if at >= 0 {
			return node.GPU.OnBus[at].NUMANode
		}
	}
	if numa := node.NVML.Cards[card].NUMANode; numa != nil {
		return *numa
	}
	return -1
}

// linkOf returns the rate of an adapter's first active port, "400 Gbit/s", or its state if no port
// is active.
func linkOf(adapter facts.HCA) string {
	for _, port := range adapter.Ports {
		if port.State == "ACTIVE" {
			return text.BitRate(float64(port.Rate))
		}
	}
	if len(adapter.Ports) == 0 {
		return "no port"
	}
	return strings.ToLower(adapter.Ports[0].State)
}

// nearest returns the GPUs that are nearest to the adapter, and how near they are. It returns no
// GPUs if all are equally far from the adapter or the distance is unknown.
func nearest(node *facts.Node, adapter facts.HCA) (cards []int, distance string) {
	steps := []string{"PIX", "PXB", "PHB", "NODE", "SYS"}
	best := len(steps)
	for i := range node.NVML.Cards {
		step := slices.Index(steps, nccl.Distance(node, i, adapter))
		switch {
		case step < 0 || step > best:
			continue
		case step < best:
			best, cards = step, nil
		}
		cards = append(cards, i)
	}
	if best == len(steps) || steps[best] == "SYS" {
		return nil, ""
	}
	return cards, steps[best]
}

// These are the measures of a machine's drawing, in units of the drawing's view box.
const (
	cardWidth, cardHeight = 84, 44
	gap                   = 16
	margin                = 20
	busHeight             = 26
	// arcRoom is the height for links between single pairs.
	arcRoom = 70
	// stem is the length of a line between two layers.
	stem = 26
)

// drawing is a row of a machine's GPUs, with their connections above and its network adapters
// below.
type drawing struct {
	Width, Height int
	Title         string // a description for a reader who cannot see the drawing
	Sockets       []box  // NUMA nodes around GPUs
	Cards         []box
	Adapters      []box
	Buses         []box // connections between all GPUs: NVLink above them, the network below them
	Arcs          []arc // NVLink between pairs of GPUs, if NVLink does not connect all GPUs
	Lines         []line
}

type box struct {
	X, Y, Width, Height int
	Label, Note         string
	Class               string
}

// Middle returns the horizontal middle of a box. The other methods return the base lines of a
// single line of text, of two lines, and of a line along the lower edge.
func (b box) Middle() int { return b.X + b.Width/2 }

func (b box) Centre() int { return b.Y + b.Height/2 + 4 }

func (b box) Upper() int { return b.Y + b.Height/2 - 3 }

func (b box) Lower() int { return b.Y + b.Height/2 + 13 }

func (b box) Bottom() int { return b.Y + b.Height - 5 }

type line struct {
	X1, Y1, X2, Y2 int
	Far            bool
}

// arc is a link between two GPUs, as an SVG path.
type arc struct {
	Path  string
	X, Y  int
	Label string
}

// artist holds the data that the layers of a drawing share.
type artist struct {
	drawing
	node *facts.Node
	y    int // the upper edge of the next layer
}

func draw(node *facts.Node, between nccl.Transport) drawing {
	a := &artist{node: node, y: margin}
	count := max(len(node.NVML.Cards), len(report.Adapters(node)))
	a.Width = 2*margin + count*(cardWidth+gap) - gap
	a.Width = max(a.Width, 320)
	a.above()
	a.cards()
	a.adapters()
	a.network(between)
	a.Height = a.y + margin
	a.Title = a.inWords()
	return a.drawing
}

// column returns the left edge of the i-th of several boxes, centred on the drawing.
func (a *artist) column(i, of int) int {
	whole := of*(cardWidth+gap) - gap
	return (a.Width-whole)/2 + i*(cardWidth+gap)
}

// above draws the connections between the GPUs. It draws one bus if all pairs have the same
// connection, and otherwise an arc for each pair with NVLink.
func (a *artist) above() {
	cards := len(a.node.NVML.Cards)
	pairs, same := a.pairs()
	switch {
	case cards < 2:
		return
	case same == "":
		a.arcs(pairs)
		return
	}
	class, label := "bus", fmt.Sprintf("%s between all %d GPUs", text.Escape(same), cards)
	if strings.HasPrefix(same, "NV") {
		class, label = "bus nvlink", "NVLink: "+label
	} else {
		label = "PCIe: " + label
	}
	left, right := a.column(0, cards), a.column(cards-1, cards)+cardWidth
	a.Buses = append(a.Buses, box{X: left, Y: a.y, Width: right - left, Height: busHeight, Label: label, Class: class})
	a.y += busHeight
	for i := range cards {
		x := a.column(i, cards) + cardWidth/2
		a.Lines = append(a.Lines, line{X1: x, Y1: a.y, X2: x, Y2: a.y + stem, Far: class == "bus"})
	}
	a.y += stem
}

type pair struct {
	from, to int
	link     string
}

// pairs returns all pairs of GPUs, and their connection if it is the same for all pairs.
func (a *artist) pairs() (all []pair, same string) {
	cards := len(a.node.NVML.Cards)
	for i, paths := range a.node.NVML.Topology {
		for j, link := range paths {
			if i < j && j < cards && link != "" {
				all = append(all, pair{i, j, link})
			}
		}
	}
	whole := len(all) == cards*(cards-1)/2
	if !whole || len(all) == 0 || slices.ContainsFunc(all, func(p pair) bool { return p.link != all[0].link }) {
		return all, ""
	}
	return all, all[0].link
}

func (a *artist) arcs(pairs []pair) {
	cards := len(a.node.NVML.Cards)
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return !strings.HasPrefix(p.link, "NV") })
	if len(pairs) == 0 {
		return
	}
	base := a.y + arcRoom
	for _, p := range pairs {
		x1, x2 := a.column(p.from, cards)+cardWidth/2, a.column(p.to, cards)+cardWidth/2
		height := min(18+10*(p.to-p.from), arcRoom)
		a.Arcs = append(a.Arcs, arc{
			Path: fmt.Sprintf("M%d %d Q%d %d %d %d", x1, base, (x1+x2)/2, base-2*height, x2, base),
			X:    (x1 + x2) / 2, Y: base - height - 3, Label: text.Escape(p.link),
		})
	}
	a.y = base
}

// cards draws the GPUs, with a frame around those of each NUMA node.
func (a *artist) cards() {
	cards := len(a.node.NVML.Cards)
	const frame = 6
	for i, card := range a.node.NVML.Cards {
		class := "card"
		if card.Failure != nil {
			class = "card broken"
		}
		b := box{X: a.column(i, cards), Y: a.y, Width: cardWidth, Height: cardHeight, Label: fmt.Sprintf("GPU %d", card.Index), Note: shortModel(card.Name), Class: class}
		a.Cards = append(a.Cards, b)
		numa := numaOf(a.node, i)
		if numa < 0 {
			continue
		}
		if i > 0 && numaOf(a.node, i-1) == numa {
			last := &a.Sockets[len(a.Sockets)-1]
			last.Width = b.X + b.Width + frame - last.X
			continue
		}
		a.Sockets = append(a.Sockets, box{X: b.X - frame, Y: b.Y - frame, Width: cardWidth + 2*frame, Height: cardHeight + frame + 18, Label: fmt.Sprintf("NUMA node %d", numa)})
	}
	a.y += cardHeight
	if len(a.Sockets) > 0 {
		a.y += 18
	}
}

// shortModel returns a GPU's name without its common prefix: "H100 80GB HBM3".
func shortModel(name string) string {
	short := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(name, "NVIDIA "), "Tesla "))
	if word, _, more := strings.Cut(short, " "); more && len(short) > 12 {
		short = word
	}
	return text.Escape(report.Shorten(short, 12))
}

// adapters draws the network adapters below the GPUs that are nearest to them.
func (a *artist) adapters() {
	adapters := slices.Clone(report.Adapters(a.node))
	if len(adapters) == 0 {
		return
	}
	place := func(adapter facts.HCA) int { // returns twice the middle of the nearest GPUs
		if cards, _ := nearest(a.node, adapter); len(cards) > 0 {
			return cards[0] + cards[len(cards)-1]
		}
		return 2 * len(a.node.NVML.Cards)
	}
	slices.SortStableFunc(adapters, func(x, y facts.HCA) int { return place(x) - place(y) })
	cardsBottom := a.y
	a.y += stem
	for i, adapter := range adapters {
		b := box{X: a.column(i, len(adapters)), Y: a.y, Width: cardWidth, Height: cardHeight, Label: text.Escape(adapter.Name), Note: text.Escape(linkOf(adapter)), Class: "adapter"}
		a.Adapters = append(a.Adapters, b)
		cards, distance := nearest(a.node, adapter)
		for _, card := range cards {
			far := distance != "PIX" && distance != "PXB"
			a.Lines = append(a.Lines, line{X1: a.Cards[card].Middle(), Y1: cardsBottom, X2: b.Middle(), Y2: b.Y, Far: far})
		}
	}
	a.y += cardHeight
}

// network draws the connection to other machines.
func (a *artist) network(between nccl.Transport) {
	if between.Name == "" {
		return
	}
	from := a.Adapters
	if between.Name == "sockets" || len(from) == 0 {
		from = nil // the GPUs' data goes through the host and not through an adapter
	}
	top := a.y
	a.y += stem
	bus := box{X: margin, Y: a.y, Width: a.Width - 2*margin, Height: busHeight, Label: text.Escape("to other nodes: " + between.Name + detail(between)), Class: "bus network"}
	a.Buses = append(a.Buses, bus)
	for _, b := range from {
		a.Lines = append(a.Lines, line{X1: b.Middle(), Y1: top, X2: b.Middle(), Y2: bus.Y})
	}
	if len(from) == 0 {
		a.Lines = append(a.Lines, line{X1: bus.Middle(), Y1: top, X2: bus.Middle(), Y2: bus.Y, Far: true})
	}
	a.y += busHeight
}

// detail returns the detail of a transport if it fits on a bus.
func detail(t nccl.Transport) string {
	if t.Detail == "" || len(t.Detail) > 60 {
		return ""
	}
	return ", " + t.Detail
}

func (a *artist) inWords() string {
	line := text.Plural(len(a.Cards), "GPU")
	if len(a.Buses) > 0 && strings.HasPrefix(a.Buses[0].Class, "bus") && len(a.Cards) > 1 {
		line += ", " + a.Buses[0].Label
	}
	if len(a.Arcs) > 0 {
		line += ", NVLink between " + text.Plural(len(a.Arcs), "pair")
	}
	return line + ", " + text.Plural(len(a.Adapters), "network adapter")
}
