// SPDX-License-Identifier: Apache-2.0

package html

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/testhosts/reporttest"
)

// largeFleet returns a complete run over n machines with eight GPUs and eight adapters each. As in
// a real fleet, machines differ in their names, addresses, serial numbers, temperatures, and the
// nodes to which they connect. Each machine connects to six others and to its neighbour, as in a
// drill of this size.
func largeFleet(t testing.TB, n int) checks.Report {
	t.Helper()
	demo := reporttest.Recorded(t)
	fleet := facts.Fleet{Head: demo.Head, NotTried: map[facts.Section]string{facts.SectionRehearsal: "not asked for"}}
	maps.Copy(fleet.NotTried, demo.NotTried)
	fleet.Head.Rehearsal = nil
	text, err := json.Marshal(demo.Nodes[2]) // this node has another protobuf version, which only a few machines keep
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var node facts.Node
		if err := json.Unmarshal(text, &node); err != nil {
			t.Fatal(err)
		}
		personal(&node, i, n, dice)
		fleet.Nodes = append(fleet.Nodes, node)
	}
	for i := range fleet.Nodes {
		meet(&fleet.Nodes[i], i, n, dice)
	}
	for i := 7; i < n; i += 250 { // nodes that were not reached
		fleet.Nodes[i] = facts.Node{Name: nodeName(i), Slots: 8, Facts: facts.Facts{SSH: demo.Nodes[5].SSH}, Missing: demo.Nodes[5].Missing}
	}
	prediction := demo.Launch
	prediction.Hosts = nil
	for i := range fleet.Nodes {
		prediction.Hosts = append(prediction.Hosts, hostfile.Host{Name: nodeName(i), Slots: demo.Launch.Hosts[0].Slots})
	}
	r := engine.Evaluate(catalogue.Catalogue, fleet, prediction, checks.DefaultPolicy())
	r.Version, r.Hostfile, r.Seconds = "v0", "hostfile", 12.3
	return r
}

// nodeName and nodeAddress return the name and the address of the i-th node of a large fleet.
func nodeName(i int) string { return fmt.Sprintf("node%04d", i) }

func nodeAddress(i int) string { return fmt.Sprintf("10.20.%d.%d", i/250, 1+i%250) }

// personal sets the facts in which a machine differs from all other machines.
func personal(node *facts.Node, i, n int, dice *rand.Rand) {
	node.Name, node.Address = nodeName(i), nodeAddress(i)
	node.Host.Hostname, node.Host.BootID, node.Host.MachineID = nodeName(i), fmt.Sprintf("%016x-%016x", dice.Uint64(), dice.Uint64()), fmt.Sprintf("%016x%016x", dice.Uint64(), dice.Uint64())
	node.Host.Uptime = dice.Float64() * 1e7
	load := float64(dice.IntN(800)) / 100
	node.Host.Load = &load
	node.Clock.Offset, node.Memory.Available = dice.Float64()/1000, node.Memory.Total-dice.Int64N(1<<33)
	node.Names.Own, node.Names.FQDN, node.Names.Lookups, node.Names.Asked = nodeName(i), nodeName(i)+".example", nil, n
	node.Net.Routes = nil
	for j := range node.Net.Interfaces {
		if nic := &node.Net.Interfaces[j]; nic.Name == "eth0" {
			nic.MAC, nic.Addresses = fmt.Sprintf("02:00:00:%02x:%02x:%02x", dice.IntN(256), i/256, i%256), []string{nodeAddress(i) + "/16"}
		}
	}
	for j := range node.Disk.Places {
		node.Disk.Places[j].Total, node.Disk.Places[j].Free = 2<<40, 1<<40+dice.Int64N(1<<40)
	}
	for j := range node.NVML.Cards {
		card := &node.NVML.Cards[j]
		used, warm := dice.Int64N(1<<24), 28+dice.IntN(12)
		card.UUID, card.Serial = fmt.Sprintf("GPU-%016x-%016x", dice.Uint64(), dice.Uint64()), fmt.Sprintf("16505%08d", dice.IntN(1e8))
		card.MemoryUsed, card.Temperature, card.Power.Draw = &used, &warm, 60+float64(dice.IntN(3000))/100
		corrected := int64(dice.IntN(3))
		card.ECC.AggregateCorrected = &corrected
		node.IB.Devices = append(node.IB.Devices, adapter(node, j, dice))
	}
	if i%97 != 13 { // a few machines keep another value
		node.Python.Packages["protobuf"] = "4.25.3"
	}
	if i%301 == 40 {
		node.SHM.Size = 64 << 20
	}
}

// adapter returns the j-th adapter of a machine, behind the switch of its j-th GPU.
func adapter(node *facts.Node, j int, dice *rand.Rand) facts.HCA {
	gpu := node.GPU.OnBus[j]
	guid := fmt.Sprintf("%04x:%04x:0300:%04x", dice.IntN(1<<16), dice.IntN(1<<16), dice.IntN(1<<16))
	return facts.HCA{
		Name: fmt.Sprintf("mlx5_%d", j), Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838", GUID: guid, NUMANode: gpu.NUMANode, Kind: "CA", Driver: "mlx5_core",
		Verbs: fmt.Sprintf("/dev/infiniband/uverbs%d", j), Path: append(gpu.Path[:2:2], fmt.Sprintf("0000:%02x:00.1", 16+j)),
		Ports: []facts.IBPort{{Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "InfiniBand", Rate: 400e9, Width: "4X", LID: 1 + dice.IntN(40000), SMLID: 1,
			GIDs: []facts.GID{{Index: 0, GID: "fe80:0000:0000:0000:" + guid, Type: "IB/RoCE v1"}}, PKeys: []string{"0xffff"}}},
	}
}

// meet adds the connections of a machine and its part in the rendezvous. Connections to the
// thirteenth of every 400 machines are dropped.
func meet(node *facts.Node, i, n int, dice *rand.Rand) {
	node.Mesh = &facts.Mesh{Interface: "eth0", Address: nodeAddress(i), Ports: []int{33000 + dice.IntN(9000)}, Reached: map[string]float64{nodeName(i): 0.00004}, MSS: 1448}
	node.PeerMesh, node.PeerRendezvous = nil, nil
	peers := []int{(i + 1) % n}
	for range 6 {
		peers = append(peers, dice.IntN(n))
	}
	for _, peer := range peers {
		node.Names.Lookups = append(node.Names.Lookups, facts.Lookup{Name: nodeName(peer), Addresses: []string{nodeAddress(peer)}})
		node.Net.Routes = append(node.Net.Routes, facts.Route{Name: nodeName(peer), To: nodeAddress(peer), Interface: "eth0", Source: nodeAddress(i)})
		switch {
		case peer == i:
		case peer%400 == 13 || peer%250 == 7:
			node.Mesh.Failed = append(node.Mesh.Failed, facts.Path{Peer: nodeName(peer), To: nodeAddress(peer), Port: 40000 + dice.IntN(9000), Outcome: facts.PathDropped, Seconds: 1.5, Error: "connection timed out"})
		default:
			node.Mesh.Reached[nodeName(peer)] = 0.0002 + dice.ExpFloat64()*0.0001
		}
	}
	node.Rendezvous = &facts.Rendezvous{Endpoint: nodeAddress(0) + ":29500", Serves: i == 0, Generation: facts.GenerationPings, Addresses: []string{nodeAddress(0)}, Address: nodeAddress(0), Interface: "eth0",
		Joined: 0.01 + dice.ExpFloat64()*0.02, Failed: facts.HopWait, Error: "not all nodes joined in time"}
	if i%400 == 13 {
		node.Rendezvous.Joined, node.Rendezvous.Failed, node.Rendezvous.Outcome, node.Rendezvous.Error = 0, facts.HopConnect, facts.PathDropped, "connection timed out"
	}
}
