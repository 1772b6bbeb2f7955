package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

var Fabric = checks.Check{
	ID:       "gpu-fabric",
	Title:    "where GPUs sit behind NVSwitches, the fabric manager runs, is of the driver's version, and has set every GPU up",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Doc: "NVSwitches route nothing before nvidia-fabricmanager has configured them, and CUDA refuses to start until then. It does not start when its version is not exactly the driver's, which is what an upgrade of " +
		"one package of the two leaves behind. In a container and in a virtual machine that was given GPUs without their switches the manager runs elsewhere, and only what the GPUs say of their place in the " +
		"fabric counts: still in progress, a status other than success, a health that is degraded, places in two domains on one machine.",
	WouldSee: "RuntimeError: Unexpected error from cudaGetDeviceCount() … Error 802: system not yet initialized",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
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
			findings = append(findings, manager...)
			if !slices.ContainsFunc(manager, func(f checks.Finding) bool { return f.Verdict == "" }) { // else the GPUs wait for it
				findings = append(findings, firstOf(node, cardsOf(node), fabricRules(node))...)
				findings = append(findings, splitFabric(node, cardsOf(node))...)
			}
		}
		return findings
	},
}

// neededForFabric is a GPU's word on its place in the fabric.
var neededForFabric = essential{func(card *facts.Card) bool { return card.Fabric == nil }, []string{"nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"}}

// hasFabric is whether a node shows NVSwitches: on its bus, at the far end of its
// links, or by what a GPU says of its fabric. Where the bus shows none, a GPU whose
// registration has not started may as well have no fabric to register with.
func hasFabric(node *facts.Node) bool {
	return node.GPU.NVSwitches > 0 || slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		return card.NVLinks != nil && card.NVLinks.RemoteKind == "switch" ||
			card.Fabric != nil && slices.Contains([]string{"in-progress", "completed"}, card.Fabric.State)
	})
}

// fabricIsUp is whether the GPUs say that somebody has set them up.
func fabricIsUp(node *facts.Node) bool {
	told := 0
	for _, card := range node.NVML.Cards {
		switch {
		case card.Fabric == nil || card.Fabric.State == "not-supported":
		case card.Fabric.State != "completed":
			return false
		default:
			told++
		}
	}
	return told > 0
}

// managerFindings judges the service of a machine that has NVSwitches of its own.
//
// Source: NVIDIA, Fabric Manager User Guide, r550: the service and the driver must be
// of one version, else "fabric manager NVIDIA GPU driver interface version … don't
// match with driver version …".
func managerFindings(node *facts.Node) []checks.Finding {
	manager := node.GPU.FabricManager
	if node.GPU.NVSwitches == 0 || ranks.ContainerOf(node) != "" || manager == nil {
		return nil
	}
	driver := cmp.Or(node.NVML.Driver, node.GPU.Module)
	running := manager.Running || manager.State == "active"
	f := checks.Finding{Nodes: []string{node.Name}, Want: "nvidia-fabricmanager " + driver + " running"}
	switch {
	case !manager.Installed && !running:
		if fabricIsUp(node) {
			return nil // somebody else has done it
		}
		f.Summary = "there are NVSwitches and no fabric manager is installed"
		f.Got = fmt.Sprintf("%d NVSwitches, driver %s", node.GPU.NVSwitches, driver)
		f.Remedy = append(installManager(driver), startManager)
	case manager.Version != "" && driver != "" && manager.Version != driver:
		f.Summary = "fabric manager and driver are of two versions"
		f.Got = fmt.Sprintf("fabric manager %s, driver %s", manager.Version, driver)
		f.Remedy = append(installManager(driver), fix.On("sudo systemctl restart nvidia-fabricmanager   # once nothing uses the GPUs"))
		if running && fabricIsUp(node) {
			f.Verdict, f.WouldSee = checks.Warn, "nothing before the next boot, then Error 802: system not yet initialized"
		}
	case !running:
		f.Summary = "the fabric manager does not run"
		f.Got = cmp.Or(manager.State, "no process of it")
		f.Remedy = []fix.Command{startManager, fix.On("sudo journalctl -u nvidia-fabricmanager -n 20   # if it does not stay up")}
	default:
		return nil
	}
	return []checks.Finding{f}
}

var startManager = fix.On("sudo systemctl enable --now nvidia-fabricmanager")

// installManager installs the manager that belongs to a driver ("550.54.15"). What
// follows the version is NVIDIA's ("-1") or the distribution's ("-0ubuntu0.24.04.1").
func installManager(driver string) []fix.Command {
	branch, _, _ := strings.Cut(driver, ".")
	if branch == "" {
		return []fix.Command{fix.On("sudo apt-get install -y nvidia-fabricmanager-BRANCH   # of exactly the driver's version")}
	}
	return []fix.Command{
		fix.On("sudo apt-get install -y 'nvidia-fabricmanager-%s=%s*'", fix.Name(branch), fix.Name(driver)),
		fix.On("sudo dnf install -y nvidia-fabric-manager-%s", fix.Name(driver)).Remark("on Red Hat"),
	}
}

// fabricRules are what GPUs say of their place in the fabric. Bandwidth that is
// degraded because links are down is for gpu-links to say.
func fabricRules(node *facts.Node) []cardRule {
	show := fix.On("nvidia-smi -q -i {gpus}   # Fabric")
	restart := []fix.Command{show, fix.On("sudo systemctl restart nvidia-fabricmanager   # where it runs, once nothing uses the GPUs"), fix.On("sudo journalctl -u nvidia-fabricmanager -n 20")}
	return []cardRule{{checks.Finding{
		Summary: "GPUs are not registered with the NVLink fabric",
		Want:    "fabric state completed",
		Remedy:  restart,
	}, func(card *facts.Card) string {
		if card.Fabric == nil || !slices.Contains([]string{"not-started", "in-progress"}, card.Fabric.State) {
			return ""
		}
		return "fabric state " + card.Fabric.State
	}}, {checks.Finding{
		Summary: "the NVLink fabric refused GPUs",
		Want:    "fabric status success",
		Remedy:  restart,
	}, func(card *facts.Card) string {
		if card.Fabric == nil || card.Fabric.Status == "" || card.Fabric.State == "not-supported" {
			return ""
		}
		return fmt.Sprintf("fabric state %s, status %s", card.Fabric.State, card.Fabric.Status)
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the NVLink fabric of GPUs is not in full health",
		Want:     "nothing degraded",
		Remedy:   append([]fix.Command{fix.On("nvidia-smi nvlink -s -i {gpus}")}, restart...),
		WouldSee: "no message: traffic between GPUs is slower, or hangs where a route is gone",
	}, func(card *facts.Card) string {
		if card.Fabric == nil {
			return ""
		}
		degraded := slices.Clone(card.Fabric.Degraded)
		if card.NVLinks != nil && len(card.NVLinks.Down) > 0 {
			degraded = slices.DeleteFunc(degraded, func(what string) bool { return what == "bandwidth" })
		}
		return strings.Join(degraded, ", ")
	}}}
}

// splitFabric finds GPUs of one machine in two domains, which is never meant.
// Machines may well be in several: of racks, or by partitions.
func splitFabric(node *facts.Node, cards []*facts.Card) []checks.Finding {
	place := func(card *facts.Card) string {
		if card.Fabric == nil || card.Fabric.Cluster == "" {
			return ""
		}
		return fmt.Sprintf("cluster %s, clique %d", card.Fabric.Cluster, card.Fabric.Clique)
	}
	at := slices.IndexFunc(cards, func(card *facts.Card) bool { return place(card) != "" })
	return eachOf(node, cards, []cardRule{{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "GPUs of one machine are in different NVLink domains",
		Want:     "one cluster and one clique on a machine",
		Remedy:   []fix.Command{fix.On("nvidia-smi -q   # Fabric: ClusterUUID and CliqueId"), fix.On("sudo systemctl restart nvidia-fabricmanager   # where it runs, once nothing uses the GPUs")},
		WouldSee: "no message: traffic between these GPUs does not take NVLink",
	}, func(card *facts.Card) string {
		if place(card) == "" || place(card) == place(cards[at]) {
			return ""
		}
		return fmt.Sprintf("%s, where %s is in %s", place(card), gpuName(*cards[at]), place(cards[at]))
	}}})
}
