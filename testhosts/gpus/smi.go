// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// SMI is a stand-in for nvidia-smi: a program for /bin/sh that knows -q -x, -L, topo
// -m and -p2p, nvlink -s and -e, the query for compute capabilities and no arguments,
// and fails with the words and the exit codes of the real one, which prints even
// those on its standard output.
func (g Machine) SMI() []byte {
	g = g.driven()
	var script bytes.Buffer
	script.WriteString("#!/bin/sh\n# Stands in for nvidia-smi.\n")
	words, code := g.smiFailure()
	switch {
	case g.Hang.Function != "":
		script.WriteString("exec sleep infinity\n")
	case g.Crash.Function != "":
		script.WriteString("kill -s SEGV $$\n")
	case code != 0:
		fmt.Fprintf(&script, "%sexit %d\n", printed(words), code)
	default:
		g.writeTables(&script)
	}
	return script.Bytes()
}

// writeTables has the script print what its arguments ask for, after a line for
// each card that has no handle.
func (g Machine) writeTables(script *bytes.Buffer) {
	var silent string
	code := 0
	for i, card := range g.Cards {
		if failed := card.handleCode(); failed != 0 {
			silent, code = silent+g.silentWords(i), min(failed, 255)
		}
	}
	tables := []struct{ arguments, text string }{
		{"-q -x", string(g.XML())},
		{"-L", g.list()},
		{"topo -m", g.topologyTable()},
		{"topo -p2p r", g.peerTable()},
		{"topo -p2p w", g.peerTable()},
		{"nvlink -s", g.linkSpeeds()},
		{"nvlink -e", g.linkErrors()},
		{"", g.table()},
	}
	if g.Driver >= "510" { // which knows the field
		tables = append(tables, struct{ arguments, text string }{"--query-gpu=pci.bus_id,compute_cap --format=csv,noheader", g.capabilities()})
	}
	script.WriteString("case \"$*\" in\n")
	for _, table := range tables {
		fmt.Fprintf(script, "'%s') %s;;\n", table.arguments, printed(silent+table.text))
	}
	fmt.Fprintf(script, "*) %sexit 2;;\nesac\n", printed("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"))
	if code != 0 {
		fmt.Fprintf(script, "exit %d\n", code)
	}
}

// silentWords are the line for a card that has no handle. Before driver 530 it was
// the last one, too, and named the card by its address alone.
func (g Machine) silentWords(i int) string {
	card := strings.ToUpper(g.Cards[i].Address())
	if g.modern() {
		card = fmt.Sprintf("%d: %s", i, card)
	} else {
		card = " " + card
	}
	words := map[int]string{nvmlLost: "GPU is lost.  Reboot the system to recover this GPU", nvmlNoPermission: "Insufficient Permissions"}[g.Cards[i].handleCode()]
	return "Unable to determine the device handle for GPU" + card + ": " + cmp.Or(words, "Unknown Error") + "\n"
}

// printed is the command that prints a text of whole lines, whatever is in them.
func printed(text string) string {
	const end = "END-OF-TEXT"
	return "cat <<'" + end + "'\n" + text + end + "\n"
}

// smiFailure is what nvidia-smi says and returns where it cannot do its work. Its
// exit code is NVML's, cut to what one can be.
func (g Machine) smiFailure() (words string, code int) {
	switch init := g.initCode(); {
	case init == nvmlDriverNotLoaded:
		return "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n", nvmlDriverNotLoaded
	case init == nvmlMismatch:
		major, minor, _ := strings.Cut(g.Driver, ".")
		minor, _, _ = strings.Cut(minor, ".")
		return fmt.Sprintf("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %s.%s\n", major, minor), nvmlMismatch
	case init != 0:
		words := map[int]string{nvmlNoPermission: "Insufficient Permissions", nvmlNotFound: "Not Found", nvmlLost: "GPU is lost"}[init]
		return "Failed to initialize NVML: " + cmp.Or(words, "Unknown Error") + "\n", min(init, 255)
	case len(g.Cards) == 0:
		return "No devices were found\n", nvmlNotFound
	}
	for i, card := range g.Cards {
		if failed := card.handleCode(); failed != 0 && !g.modern() {
			return g.silentWords(i), min(failed, 255)
		}
	}
	return "", 0
}

func (g Machine) list() string {
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
func (g Machine) table() string {
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
func (g Machine) topologyTable() string {
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
func (g Machine) joint(i, j int, card, other Card) string {
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
func (g Machine) peerTable() string {
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

func (g Machine) linkSpeeds() string {
	return g.eachLink(func(i int, link NVLink) string {
		if link.Down {
			return fmt.Sprintf("\t Link %d: <inactive>\n", i)
		}
		return fmt.Sprintf("\t Link %d: %.3f GB/s\n", i, float64(link.Speed)/1000)
	})
}

func (g Machine) linkErrors() string {
	return g.eachLink(func(i int, link NVLink) string {
		return fmt.Sprintf("\t Link %[1]d: Replay Errors: %[2]d\n\t Link %[1]d: Recovery Errors: %[3]d\n\t Link %[1]d: CRC Errors: %[4]d\n", i, link.Replays, link.Recover, link.CRC)
	})
}

// eachLink is lines for every link below one for its card.
func (g Machine) eachLink(lines func(i int, link NVLink) string) string {
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

func (g Machine) capabilities() string {
	var text strings.Builder
	for _, card := range g.Cards {
		if card.handleCode() == 0 {
			fmt.Fprintf(&text, "%s, %s\n", busID(card.Address()), card.Capability)
		}
	}
	return text.String()
}
