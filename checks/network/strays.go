// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// byDefaultRoute lists the libraries that give the other nodes the source address of the default
// route, with the modules of programs that start them. A node's own address in one of the variables
// replaces it.
//
// Source: vllm-project/vllm, get_ip, 0.6 to 0.11; sgl-project/sglang, get_ip and get_local_ip_auto;
// ray-project/ray, get_node_ip_address, 2.9 to 2.50. All three connect a UDP socket to 8.8.8.8.
var byDefaultRoute = []struct {
	name      string
	modules   []string
	variables []string
}{
	{"vLLM", []string{"vllm"}, []string{"VLLM_HOST_IP"}},
	{"SGLang", []string{"sglang"}, []string{"SGLANG_HOST_IP", "HOST_IP"}},
	{"Ray", []string{"ray", "verl", "openrlhf", "nemo_rl", "skyrl_train"}, nil},
}

// stray is a node on which a library will use an address that its peers may not reach.
type stray struct {
	node, library, variable, fault string
	choice                         nccl.Choice
	better                         nccl.Choice // the address that the ranks use
}

// strays warns about nodes where the default route leads a library that the script imports to an
// address that other nodes may not reach.
func (p *placement) strays() (findings []checks.Finding) {
	var all []stray
	for _, node := range p.view.Nodes {
		if m, _ := p.of(node); m.explainedBy == "" {
			all = append(all, p.straysOf(node)...)
		}
	}
	kind := func(s stray) string {
		return strings.Join([]string{s.library, s.fault, s.choice.Interface, s.better.Interface}, "\x00")
	}
	for _, group := range text.GroupBy(all, kind) {
		first := group.All[0]
		addresses := text.Map(group.All, func(s stray) string { return s.choice.Address })
		f := checks.Finding{
			Verdict:  checks.Warn,
			Nodes:    text.Map(group.All, func(s stray) string { return s.node }),
			Summary:  fmt.Sprintf("%s will use %s, %s", first.library, choiceText(first.choice, addresses), first.fault),
			Got:      "the source address of the default route, which NCCL's variables do not change",
			Want:     first.better.Interface + ", which the ranks use",
			WouldSee: fmt.Sprintf("a hang or a refused connection after the ranks have met, when %s calls another node", first.library),
		}
		if at := fix.Name(first.better.Interface); first.variable != "" {
			f.Remedy = []fix.Command{fix.On(`echo %s=$(ip -o -4 addr show dev %s | sed 's/.*inet \([0-9.]*\).*/\1/;q') | sudo tee -a /etc/environment`, fix.Name(first.variable), at)}
		} else {
			f.Remedy = []fix.Command{fix.Note("start Ray on {nodes} with ray start --node-ip-address and the address of %s", at)}
		}
		findings = append(findings, f)
	}
	return findings
}

// straysOf returns the libraries of one node.
func (p *placement) straysOf(node *facts.Node) (found []stray) {
	ours := p.choices[node]
	if node.Net == nil || node.Net.Default == nil || ours.Interface == "" {
		return nil
	}
	way := node.Net.Default
	choice := nccl.Choice{Interface: way.Interface, Address: way.Source}
	fault := p.strayFault(node, choice)
	if fault == "" {
		return nil
	}
	script := ranks.ScriptAt(p.view.Launch, node)
	program, _, _ := strings.Cut(p.view.Launch.Script, ".")
	for _, l := range byDefaultRoute {
		imported := slices.ContainsFunc(l.modules, func(module string) bool {
			return script != nil && slices.Contains(script.Imports, module) || p.view.Launch.Module && program == module
		})
		env := ranks.Env(p.view, node)
		isSet := slices.ContainsFunc(l.variables, func(name string) bool { return env.Get(name).Value != "" })
		if imported && !isSet {
			variable := append(slices.Clone(l.variables), "")[0]
			found = append(found, stray{node.Name, l.name, variable, fault, choice, ours})
		}
	}
	return found
}

// strayFault returns the fault of the address that the default route leads to, or "" for none. An
// address at which the ranks or preflight reach the node has none.
func (p *placement) strayFault(node *facts.Node, choice nccl.Choice) string {
	at := names.InterfaceOf(node.Net, choice.Interface)
	network, known := names.NetworkOf(node, choice.Address)
	switch {
	case choice.Address == "", choice.Address == p.choices[node].Address, choice.Address == nccl.PeerAddress(node).Address:
		return ""
	case at.Kind == "wireless":
		return "a wireless interface"
	case !known:
		return ""
	case p.glooFault(node, choice) != "":
		return p.glooFault(node, choice)
	case network.IsSingleIP() || !p.hasNeighbour(node, p.choices[node]):
		return ""
	}
	for _, other := range p.view.Everywhere() {
		if other != node && (other.Net == nil || slices.ContainsFunc(names.AddressesOf(other), network.Contains)) {
			return ""
		}
	}
	return "in a network that no other node has"
}
