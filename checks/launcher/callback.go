// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch"
)

var CallBack = checks.Check{
	ID:        "launcher-callback",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionCallBack},
	DependsOn: []string{"node-mesh"},
	Run:       judgeCallBack,
}

// callers holds the nodes of a launch, and how they connect to the launching machine.
type callers struct {
	view checks.View
	back launch.CallBack
}

func judgeCallBack(view checks.View) (findings []checks.Finding) {
	c := callers{view, view.Launch.CallBack(view.Head)}
	var shut []*facts.Node
	isBroken := func(path facts.Path) bool {
		return path.Outcome == facts.PathBroken || path.Outcome == facts.PathUntried
	}
	for _, node := range otherNodes(view) {
		switch seen := node.CallBack; {
		case len(seen.Reached) > 0:
			findings = append(findings, c.waits(node)...)
		case slices.ContainsFunc(seen.Failed, isBroken):
			broken := seen.Failed[slices.IndexFunc(seen.Failed, isBroken)]
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("could not call the launching machine at %s: %s", broken.To, broken.Error)))
		case len(seen.Failed) > 0 && names.IsLoopback(seen.Failed[0].To):
			findings = append(findings, c.misnamed(node, seen.Failed[0].To))
		case len(seen.Failed) > 0:
			shut = append(shut, node)
		case seen.Error != "":
			findings = append(findings, checks.UnknownFor(node, "could not call the launching machine: "+seen.Error))
		default:
			findings = append(findings, c.misnamed(node, ""))
		}
	}
	if here, isNode := ranks.HeadNode(view); isNode && shut != nil && view.Failing("node-mesh")[here.Name] {
		return append(findings, checks.Skipped(fmt.Sprintf("the launching machine is %s, which some nodes do not reach: see node-mesh", here.Name))...)
	}
	for _, node := range shut {
		findings = append(findings, c.shut(node, shut))
	}
	return findings
}

// misnamed returns the finding for a node that cannot resolve the launching machine's name, or that
// resolves the name to its own loopback address.
func (c callers) misnamed(node *facts.Node, loopback string) checks.Finding {
	name := node.CallBack.Name
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: fmt.Sprintf("does not resolve %s, the name of the launching machine for mpirun", name),
		Want: "the name in DNS, or in /etc/hosts of every node", WouldSee: "a hang, after: HYDU_sock_connect: unable to get host address for " + name,
		Remedy: []fix.Command{fix.On("echo ADDRESS %s | sudo tee -a /etc/hosts   # ADDRESS: where the nodes reach the launching machine", fix.Host(name)).As(fix.Or), byInterface},
	}
	if loopback == "" {
		lookup, _ := names.LookupOf(node, name)
		f.Got = lookup.Error
		return f
	}
	f.Summary = fmt.Sprintf("resolves %s, the name of the launching machine, to its own loopback", name)
	f.Got = loopback
	f.WouldSee = "a hang, after: unable to connect to server " + name
	f.Remedy[0] = fix.Note("correct the line with %s in /etc/hosts of {nodes}: it must lead to the launching machine", fix.Text(name))
	return f
}

// byInterface is the command that makes Hydra use the address of an interface.
var byInterface = fix.Here("deepspeed --launcher_args '-iface INTERFACE' …   # mpirun then uses the address of that interface instead of the name").As(fix.Or)

// waits returns the finding for a node that first tries addresses that do not answer. The node
// waits until the kernel gives up: 127 s with Linux's default net.ipv4.tcp_syn_retries.
func (c callers) waits(node *facts.Node) (findings []checks.Finding) {
	answers := node.CallBack.Reached[0]
	for _, path := range node.CallBack.Failed {
		isFirst := slices.Index(c.back.Addresses, path.To) < slices.Index(c.back.Addresses, answers)
		if path.Outcome != facts.PathDropped || !isFirst {
			continue
		}
		on := "INTERFACE"
		if held, _, known := names.HolderOf(c.view.Head, answers); known {
			on = held.Name
		}
		findings = append(findings, checks.Finding{
			Verdict: checks.Warn, Nodes: []string{node.Name},
			Summary:  fmt.Sprintf("cannot reach %s, the launching machine's address that mpirun tries first", path.To),
			Got:      fmt.Sprintf("%s answers, but mpirun tries it only after two minutes", answers),
			Want:     "only addresses that the nodes can reach",
			WouldSee: "nothing for two minutes, then mpirun continues",
			Remedy:   []fix.Command{fix.Here("deepspeed --launcher_args '--mca oob_tcp_if_include %s' …", fix.Name(on))},
		})
		break
	}
	return findings
}

// whyShut maps the outcome of a connection attempt to its likely cause.
var whyShut = map[facts.PathOutcome]string{
	facts.PathDropped:    "a firewall drops the connections",
	facts.PathRefused:    "a firewall resets the connections, or another machine has the address",
	facts.PathRejected:   "a firewall or router rejects the connections",
	facts.PathUnroutable: "no route",
	facts.PathUnresolved: "no machine answers ARP for the address or its router",
	facts.PathReset:      "a firewall or proxy that inspects the calls resets them",
	facts.PathBlackhole:  "full packets are lost, see path-mtu",
	facts.PathStranger:   "another machine answers",
}

// shut returns the finding for a node that reaches the launching machine at none of its addresses.
// all lists all such nodes.
func (c callers) shut(node *facts.Node, all []*facts.Node) checks.Finding {
	first, ports := node.CallBack.Failed[0], c.ports()
	// Prefer an address that the node has a route to: the other addresses may belong to networks
	// without nodes.
	if i := slices.IndexFunc(node.CallBack.Failed, func(path facts.Path) bool { return path.Outcome != facts.PathUnroutable }); i > 0 {
		first = node.CallBack.Failed[i]
	}
	var at, got []string
	partly := false
	for _, path := range node.CallBack.Failed {
		at, got = append(at, path.To), append(got, fmt.Sprintf("%s: %s", path.To, path.Outcome))
		partly = partly || len(path.Open) > 0
	}
	as := strings.Join(at, " or ")
	if node.CallBack.Name != "" {
		as = fmt.Sprintf("%s (%s)", node.CallBack.Name, as)
	}
	var otherwise []fix.Command
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("cannot connect to mpirun on the launching machine (%s, %s): %s", as, ports, cmp.Or(whyShut[first.Outcome], "the calls fail")),
		Got:      strings.Join(got, ", "),
		Want:     fmt.Sprintf("TCP %s of the launching machine open to the nodes", ports),
		WouldSee: "after two minutes: A process or daemon was unable to complete a TCP connection to another process … ORTE was unable to reliably start one or more daemons.",
		Remedy:   c.open(all),
	}
	if c.view.Launch.StartedBy().MPIRun == facts.OptionsHydra {
		f.WouldSee = fmt.Sprintf("a hang, after: unable to connect to server %s at port … (check for firewalls!)", cmp.Or(node.CallBack.Name, first.To))
		otherwise = append(otherwise, byInterface)
	}
	switch {
	case partly:
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("reaches the launching machine, %s, on only some of %s", as, ports)
	case first.Outcome == facts.PathUnroutable:
		f.Want = "a route to the launching machine"
		f.Remedy = []fix.Command{fix.On("ip route get %s", fix.Host(first.To)).As(fix.Look)}
	}
	f.Remedy = slices.Concat(f.Remedy, otherwise, []fix.Command{fix.Here("deepspeed --launcher=pdsh …   # needs no calls from the nodes").As(fix.Or)})
	return f
}

// ports returns the range from which mpirun takes its port.
func (c callers) ports() string {
	if c.back.High == 0 {
		return "ephemeral ports"
	}
	return fmt.Sprintf("ports %d-%d", c.back.Low, c.back.High)
}

// open returns the commands that let the nodes connect to the launching machine.
func (c callers) open(nodes []*facts.Node) (commands []fix.Command) {
	var networks []netip.Prefix
	for _, node := range nodes {
		if network, known := names.NetworkOf(node, node.Address); known && !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	for _, network := range networks {
		program := fix.Code("iptables")
		if network.Addr().Is6() {
			program = fix.Code("ip6tables")
		}
		from := fix.Name(network.String())
		commands = append(commands, remedy.Firewall(c.view.Head,
			fix.Here("sudo %s -I INPUT -p tcp -s %s -j ACCEPT   # until the firewall reloads", program, from),
			fix.Here("sudo firewall-cmd --permanent --zone=trusted --add-source=%s && sudo firewall-cmd --reload", from),
			fix.Here("sudo ufw allow proto tcp from %s", from),
		)...)
	}
	if commands == nil {
		commands = append(commands, fix.Here("sudo iptables -S; sudo nft list ruleset   # look for DROP and REJECT").As(fix.Look))
	}
	return commands
}
