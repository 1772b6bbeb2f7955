package testhosts

import (
	"fmt"
	"strings"
)

// list is what nvidia-smi -L prints.
func (g GPUs) list() string {
	var text strings.Builder
	for i, card := range g.Cards {
		if card.handleCode() != 0 {
			continue
		}
		fmt.Fprintf(&text, "GPU %d: %s (UUID: %s)\n", i, card.Name, card.UUID)
		for j, name := range card.MIGDevices {
			fmt.Fprintf(&text, "  MIG %-12sDevice %2d: (UUID: %s)\n", name, j, card.migUUID(j))
		}
	}
	return text.String()
}

// table is what nvidia-smi prints for a person, one line a card.
func (g GPUs) table() string {
	var text strings.Builder
	rule := "+" + strings.Repeat("-", 89) + "+\n"
	fmt.Fprintf(&text, "%s| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n%[1]s", rule, g.Driver, g.Driver, g.CUDA)
	for i, card := range g.Cards {
		if card.handleCode() != 0 {
			continue
		}
		usage := fmt.Sprintf("%dMiB / %dMiB", card.MemoryUsed/miB, card.Memory/miB)
		fmt.Fprintf(&text, "| %3d  %-34s %s %23s %4d%% |\n", i, card.Name, busID(card.Address()), usage, card.Busy)
	}
	return text.String() + rule
}

// topologyTable is what nvidia-smi topo -m prints of the cards, without its legend.
func (g GPUs) topologyTable() string {
	var text strings.Builder
	for i := range g.Cards {
		fmt.Fprintf(&text, "\tGPU%d", i)
	}
	text.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for i, card := range g.Cards {
		fmt.Fprintf(&text, "GPU%d", i)
		for j, other := range g.Cards {
			text.WriteString("\t" + g.joint(i, j, card, other))
		}
		fmt.Fprintf(&text, "\t%s\t%d\t\tN/A\n", card.CPUs, card.NUMA)
	}
	return text.String()
}

// joint is what joins two cards: links, of which those to switches join all,
// or else the PCI bus.
func (g GPUs) joint(i, j int, card, other GPU) string {
	if i == j {
		return " X "
	}
	links := 0
	for _, link := range card.NVLinks {
		if !link.Down && (link.Kind == "switch" && len(other.NVLinks) > 0 || link.Remote == other.Address()) {
			links++
		}
	}
	if links > 0 {
		return fmt.Sprintf("NV%d", links)
	}
	return map[int]string{10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}[topology(card, other)]
}

// peerTable is what nvidia-smi topo -p2p prints, of reading as of writing.
func (g GPUs) peerTable() string {
	words := []string{"OK", "CNS", "GNS", "TNS", "DR", "NS"}
	var text strings.Builder
	for i := range g.Cards {
		fmt.Fprintf(&text, " \tGPU%d", i)
	}
	text.WriteString("\n")
	for i, card := range g.Cards {
		fmt.Fprintf(&text, " GPU%d", i)
		for j := range g.Cards {
			if i == j {
				text.WriteString("\tX")
			} else {
				text.WriteString("\t" + words[card.Apart[j]])
			}
		}
		text.WriteString("\n")
	}
	return text.String() + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
}

// linkSpeeds is what nvidia-smi nvlink -s prints.
func (g GPUs) linkSpeeds() string {
	return g.eachLink(func(i int, link NVLink) string {
		if link.Down {
			return fmt.Sprintf("\t Link %d: <inactive>\n", i)
		}
		return fmt.Sprintf("\t Link %d: %.3f GB/s\n", i, float64(link.Speed)/1000)
	})
}

// linkErrors is what nvidia-smi nvlink -e prints.
func (g GPUs) linkErrors() string {
	return g.eachLink(func(i int, link NVLink) string {
		return fmt.Sprintf("\t Link %[1]d: Replay Errors: %[2]d\n\t Link %[1]d: Recovery Errors: %[3]d\n\t Link %[1]d: CRC Errors: %[4]d\n", i, link.Replays, link.Recover, link.CRC)
	})
}

// eachLink is lines for every link below one for its card.
func (g GPUs) eachLink(lines func(i int, link NVLink) string) string {
	var text strings.Builder
	for i, card := range g.Cards {
		if card.handleCode() != 0 || len(card.NVLinks) == 0 {
			continue
		}
		fmt.Fprintf(&text, "GPU %d: %s (UUID: %s)\n", i, card.Name, card.UUID)
		for j, link := range card.NVLinks {
			text.WriteString(lines(j, link))
		}
	}
	return text.String()
}

// capabilities is the answer to a query for compute capabilities.
func (g GPUs) capabilities() string {
	var text strings.Builder
	for _, card := range g.Cards {
		if card.handleCode() == 0 {
			fmt.Fprintf(&text, "%s, %s\n", busID(card.Address()), card.Capability)
		}
	}
	return text.String()
}
