package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// fabricRules are what GPUs say of their place in the fabric. Bandwidth that is
// degraded because links are down is for gpu-links to say.
func fabricRules(node *facts.Node) []cardRule {
	show := fix.On("nvidia-smi -q -i {gpus}   # Fabric")
	restart := []fix.Command{show, fix.On("sudo systemctl restart nvidia-fabricmanager   # where it runs, once nothing uses the GPUs"), fix.On("sudo journalctl -u nvidia-fabricmanager -n 20")}
	return []cardRule{{Finding{
		Summary: "GPUs are not registered with the NVLink fabric",
		Want:    "fabric state completed",
		Remedy:  restart,
	}, func(card *facts.Card) string {
		if card.Fabric == nil || !slices.Contains([]string{"not-started", "in-progress"}, card.Fabric.State) {
			return ""
		}
		return "fabric state " + card.Fabric.State
	}}, {Finding{
		Summary: "the NVLink fabric refused GPUs",
		Want:    "fabric status success",
		Remedy:  restart,
	}, func(card *facts.Card) string {
		if card.Fabric == nil || card.Fabric.Status == "" || card.Fabric.State == "not-supported" {
			return ""
		}
		return fmt.Sprintf("fabric state %s, status %s", card.Fabric.State, card.Fabric.Status)
	}}, {Finding{
		Verdict:  Warn,
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
func splitFabric(node *facts.Node, cards []*facts.Card) []Finding {
	place := func(card *facts.Card) string {
		if card.Fabric == nil || card.Fabric.Cluster == "" {
			return ""
		}
		return fmt.Sprintf("cluster %s, clique %d", card.Fabric.Cluster, card.Fabric.Clique)
	}
	at := slices.IndexFunc(cards, func(card *facts.Card) bool { return place(card) != "" })
	return eachOf(node, cards, []cardRule{{Finding{
		Verdict:  Warn,
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
