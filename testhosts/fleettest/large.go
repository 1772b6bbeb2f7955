// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"encoding/json"
	"fmt"
	"syscall"

	"preflight/facts"
)

// Large lists fleets of many nodes. Each fleet has one typical problem. All fleets except "apart"
// share equal data in memory, as a real run does.
var Large = []struct {
	Name string
	Of   func(n int) Fleet
}{
	{"apart", Healthy},
	{"alike", func(n int) Fleet { return largeWith(n, func(*facts.Node, int) {}) }},
	{"odd", func(n int) Fleet { // one node in ten has old software and a small /dev/shm
		return largeWith(n, func(node *facts.Node, i int) {
			if i%10 == 0 {
				node.Python.Packages["numpy"], node.SHM.Size = "2.0.0", 64<<20
			}
		})
	}},
	{"two", func(n int) Fleet { // two generations of machines
		return largeWith(n, func(node *facts.Node, i int) {
			if i%2 == 0 {
				node.Python.Packages["torch"], node.NVML.Driver, node.Host.Kernel, node.Python.Version = "2.6.0+cu124", "570.86.15", "6.8.0-45-generic", "3.12.1"
			}
		})
	}},
	{"different", func(n int) Fleet { // every node is different
		return largeWith(n, func(node *facts.Node, i int) {
			for name := range node.Python.Packages {
				node.Python.Packages[name] = fmt.Sprintf("1.%d.0", i)
			}
			node.Python.Version, node.NVML.Driver, node.Host.Kernel = fmt.Sprintf("3.11.%d", i), fmt.Sprintf("550.%d", i), fmt.Sprintf("5.15.%d", i)
			node.SHM.Size, node.Memory.Total = int64(i)<<20, int64(i)<<30
			for c := range node.NVML.Cards {
				node.NVML.Cards[c].VBIOS, node.NVML.Cards[c].Memory = fmt.Sprintf("96.%d", i), int64(i)<<20
			}
			for d := range node.IB.Devices {
				node.IB.Devices[d].Firmware = fmt.Sprintf("28.%d", i)
			}
			Rename(node, fmt.Sprintf("eth%d", i))
			for r := range node.Net.Routes {
				node.Net.Routes[r].Interface = node.Mesh.Interface
			}
		})
	}},
	{"unreached", func(n int) Fleet { // one node in ten is not reached
		return largeWith(n, func(node *facts.Node, i int) {
			if i%10 == 3 {
				*node = facts.Node{Name: node.Name, Slots: 8, Facts: facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "timeout", Port: 22, Message: "i/o timeout"}}}
			}
		})
	}},
	{"cut", func(n int) Fleet { // one node in a hundred answers no connection
		name := func(i int) string { return fmt.Sprintf("w%d", i+1) }
		return largeWith(n, func(node *facts.Node, i int) {
			for j := range n {
				if _, called := node.Mesh.Reached[name(j)]; called && j != i && j%100 == 5 {
					delete(node.Mesh.Reached, name(j))
					node.Mesh.Failed = append(node.Mesh.Failed, facts.Path{Peer: name(j), To: Address(j), Port: 35007, Outcome: facts.PathDropped, Error: "i/o timeout"})
				}
				if len(node.Mesh.Reached) < 3 {
					break
				}
			}
		})
	}},
	{"nameless", func(n int) Fleet { // half of the nodes resolve no name
		fleet := largeWith(n, func(node *facts.Node, i int) { WithoutDNS(node, i) })
		fleet.Launch.MasterAddr = "w1"
		return fleet
	}},
}

// WithoutDNS gives the launch a master name that every second node cannot resolve.
func WithoutDNS(node *facts.Node, i int) {
	node.Rendezvous.Endpoint = "w1:29500"
	if i%2 == 1 {
		for j := range node.Names.Lookups {
			node.Names.Lookups[j] = facts.Lookup{Name: node.Names.Lookups[j].Name, Error: "Temporary failure in name resolution"}
		}
		node.Rendezvous.Failed, node.Rendezvous.Error = facts.HopResolve, "Temporary failure in name resolution"
		node.Rendezvous.Addresses, node.Rendezvous.Address = nil, ""
	} else if i > 0 {
		node.Rendezvous.Failed = facts.HopWait
	}
}

func largeWith(n int, change func(*facts.Node, int)) Fleet {
	fleet := Healthy(n)
	held := map[string]facts.Facts{} // the first value for each section and JSON text
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		change(node, i)
		for _, section := range facts.Sections() {
			if !node.Has(section) {
				continue
			}
			var here facts.Facts
			here.Take(section, node.Facts)
			text, err := json.Marshal(here)
			if err != nil {
				panic(err)
			}
			first, met := held[string(text)]
			if !met {
				first, held[string(text)] = here, here
			}
			node.Facts.Take(section, first)
		}
	}
	return fleet
}

// CPUSeconds returns the processor time of this process in seconds, including garbage collection.
func CPUSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
