package testhosts

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
func (g GPUs) SMI() []byte {
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
func (g GPUs) writeTables(script *bytes.Buffer) {
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
func (g GPUs) silentWords(i int) string {
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
func (g GPUs) smiFailure() (words string, code int) {
	switch init := g.initCode(); {
	case init == nvmlDriverNotLoaded:
		return "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n", nvmlDriverNotLoaded
	case init == nvmlMismatch:
		major, minor, _ := strings.Cut(g.Driver, ".")
		minor, _, _ = strings.Cut(minor, ".")
		return fmt.Sprintf("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %s.%s\n", major, minor), nvmlMismatch
	case init != 0:
		words, known := map[int]string{nvmlNoPermission: "Insufficient Permissions", nvmlNotFound: "Not Found", nvmlLost: "GPU is lost"}[init]
		if !known {
			words = "Unknown Error"
		}
		return "Failed to initialize NVML: " + words + "\n", min(init, 255)
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
