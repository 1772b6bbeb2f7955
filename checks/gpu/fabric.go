// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var Fabric = checks.Check{
	ID:       "gpu-fabric",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		cardsOf := usedCards(view)
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForFabric)...)
		}
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, hasFabric) {
			return append(findings, checks.Skipped("no node has NVSwitches")...)
		}
		for _, node := range nodes {
			if !hasFabric(node) {
				continue
			}
			manager := managerFindings(node)
			findings = append(append(findings, manager...), switchFaults(node)...)
			if !slices.ContainsFunc(manager, func(f checks.Finding) bool { return f.Verdict == "" }) { // if the manager fails, the GPUs only wait for it
				refused := firstOf(node, cardsOf(node), fabricRules)
				for i := range refused {
					if hiddenSwitches(node) {
						refused[i].Remedy = append(refused[i].Remedy, throughInfiniBand...)
					}
				}
				findings = append(findings, refused...)
				findings = append(findings, splitFabric(node, cardsOf(node))...)
			}
		}
		return findings
	},
}

var neededForFabric = essential{func(card *facts.Card) bool { return card.Fabric == nil }, []string{"nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"}}

// hasFabric reports whether a node shows NVSwitches: on its bus, at the other end of its links, or
// in the fabric state of a GPU. If the bus shows none, a GPU whose registration has not started may
// have no fabric at all.
func hasFabric(node *facts.Node) bool {
	return ownsSwitches(node) || slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		return card.NVLinks != nil && card.NVLinks.RemoteKind == "switch" ||
			card.Fabric != nil && slices.Contains([]string{"in-progress", "completed"}, card.Fabric.State)
	})
}

// ownsSwitches reports whether a machine has NVSwitches that its own fabric manager sets up. The
// switches are on its bus or behind adapters. If the adapters do not show the switches, the GPU
// model together with an installed manager counts. A virtual machine with such GPUs has no
// switches.
func ownsSwitches(node *facts.Node) bool {
	return node.GPU.NVSwitches > 0 || hiddenSwitches(node)
}

func hiddenSwitches(node *facts.Node) bool {
	return len(node.GPU.SwitchDoors) > 0 || node.GPU.NVSwitches == 0 && valueOf(node.GPU.FabricManager).Installed && slices.ContainsFunc(node.NVML.Cards, ranks.IsHGXBlackwell)
}

func fabricIsUp(node *facts.Node) bool {
	var states []string
	for _, card := range node.NVML.Cards {
		if card.Fabric != nil && card.Fabric.State != "not-supported" {
			states = append(states, card.Fabric.State)
		}
	}
	slices.Sort(states)
	return slices.Equal(slices.Compact(states), []string{"completed"})
}

// managerFindings checks the fabric manager of a machine that has NVSwitches.
//
// Source: NVIDIA, Fabric Manager User Guide, r550: the service and the driver must have the same
// version, else "fabric manager NVIDIA GPU driver interface version … don't match with driver
// version …".
func managerFindings(node *facts.Node) []checks.Finding {
	manager := node.GPU.FabricManager
	if !ownsSwitches(node) || ranks.ContainerOf(node) != "" || manager == nil {
		return nil
	}
	driver := cmp.Or(node.NVML.Driver, node.GPU.Module)
	running := manager.Running || manager.State == "active"
	f := checks.Finding{Nodes: []string{node.Name}, Want: "nvidia-fabricmanager " + driver + " running"}
	switch {
	case !manager.Installed && !running:
		if fabricIsUp(node) {
			return nil // another machine has set up the fabric
		}
		f.Summary = "the node has NVSwitches, but no fabric manager is installed"
		f.Got = fmt.Sprintf("%d NVSwitches, driver %s", node.GPU.NVSwitches, driver)
		if len(node.GPU.SwitchDoors) > 0 {
			f.Got = fmt.Sprintf("NVSwitches behind %s, driver %s", strings.Join(node.GPU.SwitchDoors, ", "), driver)
		}
		f.Remedy = append(installManager(node, driver), startManager.As(fix.Then))
	case manager.Version != "" && driver != "" && manager.Version != driver:
		f.Summary = fmt.Sprintf("fabric manager %s does not match driver %s", manager.Version, driver)
		f.Got = fmt.Sprintf("fabric manager %s, driver %s", manager.Version, driver)
		f.Remedy = append(installManager(node, driver), fix.On("sudo systemctl restart nvidia-fabricmanager   # when no process uses the GPUs").As(fix.Then))
		if running && fabricIsUp(node) {
			f.Verdict, f.WouldSee = checks.Warn, "nothing until the next boot, then Error 802: system not yet initialized"
		}
	case !running:
		f.Summary = "the fabric manager is not running"
		f.Got = cmp.Or(manager.State, "no such process")
		f.Remedy = []fix.Command{startManager, fix.On("sudo journalctl -u nvidia-fabricmanager -n 20   # if the service stops again").As(fix.Look)}
	default:
		return nil
	}
	if hiddenSwitches(node) {
		f.Remedy = append(f.Remedy, throughInfiniBand...)
	}
	return []checks.Finding{f}
}

// throughInfiniBand lists the additional steps for HGX B200 and B300. On these machines, the subnet
// manager nvlsm manages the switches and reaches them over InfiniBand.
//
// Source: NVIDIA, Fabric Manager User Guide, r570, HGX B200.
var throughInfiniBand = []fix.Command{
	fix.On("sudo modprobe ib_umad").As(fix.Then),
	fix.On("ibstat; pgrep -a nvlsm   # the manager needs the package nvlsm and ACTIVE ports of the adapters that manage the switches").As(fix.Look),
}

// switchFaults returns the findings for fatal errors of a node's NVSwitches. Traffic through the
// switches fails until the switches and the GPUs are reset.
//
// Source: NVIDIA, Fabric Manager User Guide, r550, appendix D; NVIDIA/DCGM of 2026-07,
// DcgmHealthWatch.cpp, DCGM_FI_DEV_SXID_FATAL_ERROR.
func switchFaults(node *facts.Node) []checks.Finding {
	var faults []string
	for _, sxid := range node.GPU.SXids {
		if what, fatal := strings.CutPrefix(sxid.Text, "Fatal, "); fatal && sxid.Age <= xidWindow {
			faults = append(faults, fmt.Sprintf("SXid %d of %s, %s, %s ago", sxid.Code, sxid.Address, what, text.Duration(sxid.Age)))
		}
	}
	if faults == nil {
		return nil
	}
	const most = 3
	got := strings.Join(faults[max(0, len(faults)-most):], "; ")
	return []checks.Finding{{
		Nodes:    []string{node.Name},
		Summary:  "NVSwitches reported fatal errors in the last 24 hours",
		Got:      got + when(len(faults) > most, "; and %d before", len(faults)-most),
		Want:     "no fatal SXid in the last 24 hours; if the GPUs and switches were reset after the last one, waive this finding until tomorrow",
		Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i sxid").As(fix.Look), resetGPUs, fix.On("sudo systemctl restart nvidia-fabricmanager").As(fix.Then)},
		WouldSee: "Xid 74 or 45 in the kernel log, and a collective that ends in a CUDA error or hangs",
	}}
}

var (
	startManager   = fix.On("sudo systemctl enable --now nvidia-fabricmanager")
	restartManager = fix.On("sudo systemctl restart nvidia-fabricmanager   # when no process uses the GPUs; in a virtual machine, on its host")
)

// installManager returns the commands that install the fabric manager for a driver version such as
// "550.54.15". The version of the package has an additional suffix from NVIDIA ("-1") or the
// distribution ("-0ubuntu0.24.04.1").
func installManager(node *facts.Node, driver string) []fix.Command {
	branch, _, _ := strings.Cut(driver, ".")
	if branch == "" {
		return []fix.Command{fix.Note("install nvidia-fabricmanager on {nodes} in exactly the driver's version")}
	}
	ofBranch := fix.On("sudo apt-get install -y 'nvidia-fabricmanager-%s=%s*'", fix.Name(branch), fix.Name(driver))
	if !hostfile.Before(branch, "580") {
		ofBranch = fix.On("sudo apt-get install -y 'nvidia-fabricmanager=%s*' || sudo apt-get install -y 'nvidia-fabricmanager-%s=%[1]s*'", fix.Name(driver), fix.Name(branch)).Remark("NVIDIA's repository, or Ubuntu's")
	}
	if remedy.IsUbuntu(node) {
		return []fix.Command{ofBranch}
	}
	return fix.Alternatives(ofBranch, fix.On("sudo dnf install -y nvidia-fabric-manager-%s", fix.Name(driver)).Remark("on Red Hat"))
}

// fabricRules lists the rules for the fabric state that GPUs report. They do not cover bandwidth
// that is degraded because links are down, because gpu-links reports that.
var fabricRules = func() []cardRule {
	show := fix.On("nvidia-smi -q -i {gpus}   # see Fabric").As(fix.Look)
	restart := []fix.Command{show, restartManager, fix.On("sudo journalctl -u nvidia-fabricmanager -n 20").As(fix.Look)}
	return []cardRule{{checks.Finding{
		Summary: "GPUs are not registered with the NVLink fabric",
		Want:    "fabric state completed",
		Remedy:  restart,
	}, func(_ *facts.Node, card *facts.Card) string {
		state := valueOf(card.Fabric).State
		return when(state == "not-started" || state == "in-progress", "fabric state %s", state)
	}}, {checks.Finding{
		Summary: "the NVLink fabric refused GPUs",
		Want:    "fabric status success",
		Remedy:  restart,
	}, func(_ *facts.Node, card *facts.Card) string {
		fabric := valueOf(card.Fabric)
		return when(fabric.Status != "" && fabric.State != "not-supported", "fabric state %s, status %s", fabric.State, fabric.Status)
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the NVLink fabric of GPUs is degraded",
		Want:     "a healthy fabric",
		Remedy:   append([]fix.Command{fix.On("nvidia-smi nvlink -s -i {gpus}").As(fix.Look)}, restart...),
		WouldSee: "no message: traffic between GPUs is slower, or hangs if a route is gone",
	}, func(_ *facts.Node, card *facts.Card) string {
		linksDown, fabric := len(valueOf(card.NVLinks).Down) > 0, valueOf(card.Fabric)
		degraded := compare.Without(fabric.Degraded, func(what string) bool { return linksDown && what == "bandwidth" })
		if len(fabric.Degraded) == 0 && (fabric.Health == "unhealthy" || fabric.Health == "limited-capacity") {
			return fabric.Health
		}
		return strings.Join(degraded, ", ")
	}}}
}()

// splitFabric returns a finding for GPUs of one machine that are in two domains, which is never
// intended. Several machines may be in several domains, such as racks or partitions.
func splitFabric(node *facts.Node, cards []*facts.Card) []checks.Finding {
	place := func(card *facts.Card) string {
		fabric := valueOf(card.Fabric)
		return when(fabric.Cluster != "", "cluster %s, clique %d", fabric.Cluster, fabric.Clique)
	}
	at := slices.IndexFunc(cards, func(card *facts.Card) bool { return place(card) != "" })
	if at < 0 {
		return nil
	}
	return eachOf(node, cards, []cardRule{{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "GPUs of one machine are in different NVLink domains",
		Want:     "one cluster and one clique per machine",
		Remedy:   []fix.Command{fix.On("nvidia-smi -q   # see Fabric: ClusterUUID and CliqueId").As(fix.Look), restartManager},
		WouldSee: "no message: traffic between these GPUs does not use NVLink",
	}, func(_ *facts.Node, card *facts.Card) string {
		if place(card) == "" || place(card) == place(cards[at]) {
			return ""
		}
		return fmt.Sprintf("%s, but %s is in %s", place(card), gpuName(*cards[at]), place(cards[at]))
	}}})
}

var IMEX = checks.Check{
	ID:       "gpu-imex",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		transports := nccl.NewTransports(view.Launch, view.All)
		joined := compare.Without(nodes, func(n *facts.Node) bool { return transports.Domain(n) == "" })
		if len(nodes) > 0 && len(joined) == 0 {
			return append(findings, checks.Skipped("NCCL shares no GPU memory between machines")...)
		}
		checked := compare.Without(joined, func(n *facts.Node) bool { return n.GPU.IMEX == nil })
		for _, node := range joined {
			if node.GPU.IMEX == nil {
				findings = append(findings, checks.UnknownFor(node, "gpu: IMEX was not checked"))
				continue
			}
			findings = append(findings, checks.OfNode(node, slices.Concat(closedChannels(node), idleIMEX(node))...)...)
		}
		for _, domain := range text.GroupBy(checked, transports.Domain) {
			findings = append(findings, unlikePeers(domain.All)...)
		}
		return findings
	},
}

// closedChannels returns a finding for a node without a usable IMEX channel. On such a node, NCCL
// from 2.25 to before 2.27.3 behaves as if the machine had no NVLink to other machines.
//
// Source: NVIDIA/nccl 2.25.1, 2.27.3 and 2.30.7, mnnvl.cc, ncclMnnvlCheck; the administrator or the
// kernel module creates the nodes: NVIDIA/open-gpu-kernel-modules 560, nvidia/nv-caps-imex.c.
func closedChannels(node *facts.Node) []checks.Finding {
	var refused []string
	for _, channel := range node.GPU.IMEX.Channels {
		if channel.Problem == "" {
			return nil
		}
		refused = append(refused, channel.Path+": "+channel.Problem)
	}
	container := ranks.ContainerOf(node)
	f := checks.Finding{
		Summary:  "no IMEX channel: ranks cannot share GPU memory with other machines",
		Want:     "/dev/nvidia-caps-imex-channels/channel0, which every rank can read and write",
		WouldSee: "NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
		Remedy:   remedy.StartAgain(container, remedy.IMEXChannel),
	}
	if refused != nil {
		f.Summary, f.Got = "ranks cannot open an IMEX channel to share GPU memory with other machines", strings.Join(refused, ", ")
	}
	switch {
	case f.Remedy != nil:
	case container != "":
		f.Remedy = []fix.Command{fix.Note("start the container of {nodes} again with its machine's /dev/nvidia-caps-imex-channels/channel0; in Kubernetes a ComputeDomain provides it")}
	case refused != nil:
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia-caps-imex-channels; id   # shows who may open them").As(fix.Look), fix.On("sudo chmod a+rw /dev/nvidia-caps-imex-channels/channel0   # if jobs need no isolation from each other")}
	default:
		f.Remedy = []fix.Command{
			fix.On(`sudo mkdir -p /dev/nvidia-caps-imex-channels && sudo mknod -m 666 /dev/nvidia-caps-imex-channels/channel0 c $(awk '$2 == "nvidia-caps-imex-channels" {print $1}' /proc/devices) 0   # until the next boot`),
			fix.Note("to keep it after a reboot, add options nvidia NVreg_CreateImexChannel0=1 to /etc/modprobe.d and rebuild the initramfs"),
			fix.Note("if Slurm gives jobs their channels (SwitchType=switch/nvidia_imex), run preflight inside the job"),
		}
	}
	if version := nccl.Version(node); version != "" && !hostfile.Before(version, "2.25") && hostfile.Before(version, "2.27.3") {
		f.Verdict, f.WouldSee = checks.Warn, "no message: NCCL "+version+" uses the network between machines"
	}
	return []checks.Finding{f}
}

// idleIMEX returns a finding for a machine whose IMEX service is not running.
func idleIMEX(node *facts.Node) []checks.Finding {
	seen := node.GPU.IMEX
	if seen.Running || seen.State == "active" || ranks.ContainerOf(node) != "" {
		return nil
	}
	f := checks.Finding{
		Summary: "the IMEX service is not running", Got: seen.State, Want: "nvidia-imex running",
		Remedy: []fix.Command{fix.On("sudo systemctl enable --now nvidia-imex"), fix.On("sudo journalctl -u nvidia-imex -n 20   # if the service stops again").As(fix.Look)},
	}
	if !seen.Installed {
		f.Summary = "the IMEX service is not installed"
		f.Remedy = []fix.Command{fix.Note("install nvidia-imex in the driver's version on {nodes}, from NVIDIA's repository, and list the machines of the NVLink domain in /etc/nvidia-imex/nodes_config.cfg"), f.Remedy[0]}
	}
	return []checks.Finding{f}
}

// unlikePeers compares the lists of machines that the IMEX services of one NVLink domain have. A
// service compares its list with the lists of all other services, and does not start if they
// differ.
//
// Source: NVIDIA, IMEX Service for NVLink Networks, Deployment Models, Constraints.
func unlikePeers(nodes []*facts.Node) (findings []checks.Finding) {
	listed := compare.Without(nodes, func(n *facts.Node) bool { return n.GPU.IMEX.Peers == nil || ranks.ContainerOf(n) != "" })
	lists := fix.On("grep -v '^#' /etc/nvidia-imex/nodes_config.cfg; nvidia-imex-ctl -N").As(fix.Look)
	again := fix.On("sudo systemctl restart nvidia-imex   # on all machines of the domain, when the lists are the same and no job runs there").As(fix.Or)
	edit := fix.Note("give all machines of the NVLink domain the same /etc/nvidia-imex/nodes_config.cfg, then restart nvidia-imex on all of them")
	differences := compare.Differences(compare.Among(listed, "nodes_config.cfg", func(n *facts.Node) string { return strings.Join(n.GPU.IMEX.Peers, " ") }))
	if differences != nil {
		return compare.Findings("machine lists of the IMEX services", differences, checks.Finding{Remedy: []fix.Command{lists, again, edit}})
	}
	for _, node := range listed {
		if unknown := strangers(node, nodes); unknown != nil {
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "the IMEX service does not list all nodes of this launch",
				Got:     fmt.Sprintf("%s listed, but no address of %s is among them", counted{int64(len(node.GPU.IMEX.Peers)), "machine"}, strings.Join(unknown, ", ")),
				Want:    "a nodes_config.cfg that lists every machine of the NVLink domain",
				Remedy:  []fix.Command{lists, again, edit},
			})
		}
	}
	return findings
}

// strangers returns the nodes that have no address in the list of the given node. It returns nil if
// the list contains names.
func strangers(node *facts.Node, nodes []*facts.Node) (names []string) {
	for _, peer := range node.GPU.IMEX.Peers {
		if _, err := netip.ParseAddr(peer); err != nil {
			return nil
		}
	}
	for _, other := range nodes {
		own := []string{other.Address}
		for _, each := range valueOf(other.Net).Interfaces {
			for _, address := range each.Addresses {
				bare, _, _ := strings.Cut(address, "/")
				own = append(own, bare)
			}
		}
		if other.Net != nil && !slices.ContainsFunc(node.GPU.IMEX.Peers, func(peer string) bool { return slices.Contains(own, peer) }) {
			names = append(names, other.Name)
		}
	}
	return names
}
