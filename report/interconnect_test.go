package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
)

// fabric is three machines: two alike with two GPUs and an adapter behind one
// switch, and one whose GPUs are others.
func fabric() checks.Report {
	r := passing()
	r.Nodes = nil
	for i, model := range []string{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA L4"} {
		node := facts.Node{Name: fmt.Sprintf("w%d", i+1), Reached: true}
		link := "NV18"
		if i == 2 {
			link = "SYS"
		}
		node.NVML = &facts.NVML{Source: "nvml", Driver: "550.54.15", CUDA: "12.4", Topology: [][]string{{"X", link}, {link, "X"}}}
		node.GPU = &facts.GPU{}
		for card := range 2 {
			address := fmt.Sprintf("0000:%d0:00.0", card+1)
			node.NVML.Cards = append(node.NVML.Cards, facts.Card{Index: card, Name: model, Address: address})
			node.GPU.OnBus = append(node.GPU.OnBus, facts.PCIGPU{Address: address, NUMANode: card, Path: []string{fmt.Sprintf("pci0000:0%d", card), "0000:00:01.0", address}})
		}
		node.IB = &facts.IB{Devices: []facts.HCA{{Name: "mlx5_0", Path: []string{"pci0000:00", "0000:00:01.0", "0000:11:00.0"}}}}
		r.Nodes = append(r.Nodes, node)
	}
	ib := launch.Transport{Name: "InfiniBand", Detail: "mlx5_0, 400 Gbit/s, GPUDirect"}
	r.Nodes = append(r.Nodes, facts.Node{Name: "w4", Reached: true, Facts: facts.Facts{NVML: &facts.NVML{}}})
	r.Interconnect = []checks.Interconnect{
		{Nodes: []string{"w1", "w2"}, Inside: launch.Transport{Name: "NVLink", Detail: "NV18 between both GPUs"}, Between: ib},
		{Nodes: []string{"w3"}, Inside: launch.Transport{Name: "shared memory", Why: "the GPUs cannot reach each other"}, Between: ib},
	}
	return r
}

func TestInterconnect(t *testing.T) {
	for name, style := range map[string]Style{"fabric": {}, "fabric-verbose": {Verbose: true}} {
		var got bytes.Buffer
		if err := Text(&got, fabric(), style); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", got.Bytes())
	}
}

// What a driver says of itself is as little trusted as the rest.
func TestInterconnectIsEscaped(t *testing.T) {
	const evil = "\x1b[2J\u202e"
	r := fabric()
	r.Nodes[0].NVML.Cards[0].Name, r.Nodes[0].NVML.Topology[0][1], r.Nodes[0].IB.Devices[0].Name = evil, evil, evil
	r.Interconnect[0].Between.Detail = evil
	var got bytes.Buffer
	if err := Text(&got, r, Style{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(got.String(), evil[:1]+"\u202e") {
		t.Errorf("a control character got through:\n%q", got.String())
	}
	if n := strings.Count(got.String(), `\x1b[2J`); n < 3 {
		t.Errorf("said %d times:\n%s", n, got.String())
	}
}

// A fleet in which every machine is another one does not fill the page.
func TestManyKinds(t *testing.T) {
	r := fabric()
	r.Nodes = nil
	for i := range 9 {
		r.Nodes = append(r.Nodes, facts.Node{Name: fmt.Sprintf("w%d", i), Facts: facts.Facts{NVML: &facts.NVML{Cards: []facts.Card{{Name: fmt.Sprintf("model %d", i)}}}}})
	}
	var got bytes.Buffer
	if err := Text(&got, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), "5 more kinds: -v shows them") || strings.Contains(got.String(), "model 4") {
		t.Errorf("printed:\n%s", got.String())
	}
}
