// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"preflight/facts"
	"preflight/internal/lazyregexp"
)

// askTables asks for what the document does not have, by a process for each table.
// They run at once, so that GPUs that sleep wake up once for all of them. A table
// that does not come is not told.
func (s smi) askTables(ctx context.Context, seen *facts.NVML) {
	var reads [][]string
	tables := []struct {
		args []string
		read func(text string)
	}{
		{[]string{"--query-gpu=pci.bus_id,compute_cap", "--format=csv,noheader"}, func(text string) { readCapabilities(text, seen.Cards) }},
		{[]string{"topo", "-m"}, func(text string) { seen.Topology = readTopology(text, seen.Cards) }},
		{[]string{"topo", "-p2p", "r"}, func(text string) { reads = readPeers(text, len(seen.Cards)) }},
		{[]string{"topo", "-p2p", "w"}, func(text string) { seen.Peers = mergeDirections(reads, readPeers(text, len(seen.Cards))) }},
		{[]string{"nvlink", "-s"}, func(text string) { readLinks(text, seen.Cards) }},
		{[]string{"nvlink", "-e"}, func(text string) { readLinkErrors(text, seen.Cards) }},
		{[]string{"-L"}, func(text string) { readInstances(text, seen.Cards) }},
	}
	if !slices.ContainsFunc(seen.Cards, func(card facts.Card) bool { return card.MIG == "enabled" }) {
		tables = tables[:len(tables)-1]
	}
	texts := make([]string, len(tables))
	var asking sync.WaitGroup
	for i, table := range tables {
		asking.Go(func() {
			if answer, err := s.run(ctx, table.args...); err == nil && answer.err == nil {
				texts[i] = answer.stdout
			}
		})
	}
	asking.Wait()
	for i, table := range tables {
		table.read(texts[i])
	}
}

// readCapabilities reads "00000000:4E:00.0, 9.0", known since driver 510.
func readCapabilities(text string, cards []facts.Card) {
	for row := range strings.Lines(text) {
		id, capability, _ := strings.Cut(strings.TrimSpace(row), ", ")
		if _, err := strconv.ParseFloat(capability, 64); err != nil {
			continue
		}
		for i := range cards {
			if address := busAddress(id); address != "" && cards[i].Address == address {
				cards[i].Capability = capability
			}
		}
	}
}

var (
	// The head of a table is underlined, even in a pipe.
	underline = lazyregexp.New(`\x1b\[[0-9;]*m`)
	gpuName   = lazyregexp.New(`^GPU(\d{1,4})$`)
)

// smiTable is a table of one row for each GPU, whose cells tabs part.
type smiTable struct {
	head []string
	rows map[int][]string // by GPU
}

func readTable(text string) smiTable {
	table := smiTable{rows: map[int][]string{}}
	for row := range strings.Lines(underline.ReplaceAllString(text, "")) {
		cells := strings.Split(strings.TrimRight(row, "\r\n"), "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if gpu := gpuName.FindStringSubmatch(cells[0]); gpu != nil {
			index, _ := strconv.Atoi(gpu[1]) // four digits
			table.rows[index] = cells
		} else if table.head == nil && slices.ContainsFunc(cells, gpuName.MatchString) {
			table.head = cells
		}
	}
	return table
}

// matrix is the columns of the GPUs, each cell as it translates, "" for a word that
// is not known; nil when there is no row.
func (t smiTable) matrix(n int, words func(cell string) string) [][]string {
	if len(t.rows) == 0 {
		return nil
	}
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = make([]string, n)
		rows[i][i] = "X"
		for column, cell := range t.rows[i] {
			if column >= len(t.head) {
				break
			}
			gpu := gpuName.FindStringSubmatch(t.head[column])
			if gpu == nil {
				continue
			}
			if j, _ := strconv.Atoi(gpu[1]); j < n && j != i {
				rows[i][j] = words(cell)
			}
		}
	}
	return rows
}

// topologyWord is a word of the legend of topo -m. SOC was SYS up to driver 375.
var topologyWord = lazyregexp.New(`^(?:NV\d{1,3}|PIX|PXB|PHB|NODE|SYS)$`)

// readTopology reads topo -m: what joins the GPUs and, into the cards, what of the
// machine is near them. A node of the machine stands one cell further where the
// list of processors left room for a second tab.
func readTopology(text string, cards []facts.Card) [][]string {
	table := readTable(text)
	for i := range cards {
		row := table.rows[i]
		near := slices.Index(table.head, "CPU Affinity")
		if near < 0 || near >= len(row) {
			continue
		}
		if cpuList.MatchString(row[near]) {
			cards[i].CPUs = row[near]
		}
		for _, cell := range row[near+1 : min(near+3, len(row))] {
			if node, err := strconv.Atoi(cell); err == nil && slices.Contains(table.head, "NUMA Affinity") {
				cards[i].NUMANode = &node
				break
			}
		}
	}
	return table.matrix(len(cards), func(cell string) string {
		if cell == "SOC" {
			return "SYS"
		}
		return topologyWord.FindString(cell)
	})
}

// cpuList is processors as the kernel lists them.
var cpuList = lazyregexp.New(`^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$`)

// peerStates are the legend of topo -p2p, by the names that facts have for them.
var peerStates = map[string]string{
	"OK": "ok", "CNS": "chipset-not-supported", "GNS": "gpu-not-supported", "TNS": "topology-not-supported",
	"DR": "disabled-by-regkey", "NS": "not-supported", "U": "unknown",
}

// readPeers reads topo -p2p.
func readPeers(text string, n int) [][]string {
	return readTable(text).matrix(n, func(cell string) string { return peerStates[cell] })
}

// mergeDirections is for each pair what keeps one from reading the other's memory, or
// else from writing it.
func mergeDirections(reads, writes [][]string) [][]string {
	if reads == nil || writes == nil {
		return nil
	}
	for i := range reads {
		for j := range reads[i] {
			if reads[i][j] == "ok" {
				reads[i][j] = writes[i][j]
			}
		}
	}
	return reads
}

var (
	ofGPU      = lazyregexp.New(`^GPU (\d{1,4}):`)
	linkState  = lazyregexp.New(`^\s*Link (\d{1,3}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<?inactive>?)`)
	linkErrors = lazyregexp.New(`^\s*Link (\d{1,3}): (Replay|Recovery|CRC) Errors: (\d{1,18})\s*$`)
	instance   = lazyregexp.New(`^\s+MIG (\S{1,64})\s+Device\s`)
)

// eachGPU calls take for the lines below each GPU's own.
func eachGPU(text string, cards []facts.Card, take func(card *facts.Card, row string)) {
	var card *facts.Card
	for row := range strings.Lines(text) {
		if gpu := ofGPU.FindStringSubmatch(row); gpu != nil {
			card = nil
			if index, _ := strconv.Atoi(gpu[1]); index < len(cards) {
				card = &cards[index]
			}
		} else if card != nil {
			take(card, row)
		}
	}
}

// readLinks reads nvlink -s: the speed of one direction, in 10⁹ bytes a second, of
// each link that is active. Of a GPU none of whose links is, older drivers say so
// without telling how many there are: its links are not told.
func readLinks(text string, cards []facts.Card) {
	speeds := map[*facts.Card][]int64{}
	eachGPU(text, cards, func(card *facts.Card, row string) {
		match := linkState.FindStringSubmatch(row)
		if match == nil {
			return
		}
		if card.NVLinks == nil {
			card.NVLinks = &facts.NVLinks{}
		}
		links := card.NVLinks
		index, _ := strconv.Atoi(match[1])
		links.Count = max(links.Count, index+1)
		gigabytes, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			links.Down = append(links.Down, index)
		}
		for len(speeds[card]) < links.Count {
			speeds[card] = append(speeds[card], 0)
		}
		speeds[card][index] = int64(math.Round(gigabytes*1e3)) * 8e6
	})
	for card, each := range speeds {
		card.NVLinks.Speed = slices.Max(each)
		for index, speed := range each {
			if speed > 0 && speed < card.NVLinks.Speed {
				card.NVLinks.Slow = append(card.NVLinks.Slow, index)
			}
		}
	}
}

// readLinkErrors reads nvlink -e, which has more counters since driver 570 than
// these three.
func readLinkErrors(text string, cards []facts.Card) {
	eachGPU(text, cards, func(card *facts.Card, row string) {
		match := linkErrors.FindStringSubmatch(row)
		if match == nil || card.NVLinks == nil {
			return
		}
		links := card.NVLinks
		links.Counted = true
		index, _ := strconv.Atoi(match[1])
		count, _ := strconv.ParseInt(match[3], 10, 64)
		if count == 0 {
			return
		}
		place := slices.IndexFunc(links.Errors, func(e facts.NVLinkErrors) bool { return e.Link == index })
		if place < 0 {
			place = len(links.Errors)
			links.Errors = append(links.Errors, facts.NVLinkErrors{Link: index})
		}
		switch match[2] {
		case "Replay":
			links.Errors[place].Replays = count
		case "Recovery":
			links.Errors[place].Recoveries = count
		case "CRC":
			links.Errors[place].CRC = count
		}
	})
}

// readInstances reads -L for the names of the parts that GPUs were cut into.
func readInstances(text string, cards []facts.Card) {
	eachGPU(text, cards, func(card *facts.Card, row string) {
		if match := instance.FindStringSubmatch(row); match != nil {
			card.MIGDevices = append(card.MIGDevices, match[1])
		}
	})
}
