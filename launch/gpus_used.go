package launch

import (
	"slices"

	"preflight/facts"
	"preflight/hostfile"
)

// SlotsUsed is a function that tells which accelerators the launch gives to the ranks
// of a node, as the ranks count them; nil where nothing says, or where their number is
// the accelerators' own, as with torchrun's --nproc_per_node=gpu.
func (p Prediction) SlotsUsed() func(*facts.Node) []int {
	slots := make(map[string][]int, len(p.Hosts))
	if perNode := p.perNode(); perNode == "" || isNumber(perNode) {
		for i, host := range p.Hosts {
			slots[host.Name] = p.devices(i)
		}
	}
	if p.Local && len(p.Hosts) > 0 {
		return func(*facts.Node) []int { return p.Hosts[0].Slots }
	}
	return func(node *facts.Node) []int { return slots[node.Name] }
}

// GPUsUsed is a function that tells which GPUs the ranks of a node take, by their
// places among the cards that NVML shows; all where nothing says which. A slot is
// taken for such a place: CUDA counts alike where a node's GPUs are of one model. Where
// no launch.py sets CUDA_VISIBLE_DEVICES, the GPUs that it shows are counted.
func (p Prediction) GPUsUsed() func(*facts.Node) []int {
	slotsOf := p.SlotsUsed()
	return func(node *facts.Node) []int {
		cards := node.NVML.Cards
		used := slotsOf(node)
		if !p.ChoosesDevices() {
			used = throughVisible(used, RankEnv(node.Env, p.Exports)["CUDA_VISIBLE_DEVICES"].Value, cards)
		}
		if used == nil {
			used = hostfile.FirstSlots(len(cards))
		}
		return slices.DeleteFunc(slices.Clone(used), func(place int) bool { return place >= len(cards) })
	}
}

// throughVisible are the GPUs that a process finds at the slots, of those that its
// CUDA_VISIBLE_DEVICES shows it; "" is none, and shows all.
func throughVisible(slots []int, visible string, cards []facts.Card) []int {
	shown, known := Visible(visible, len(cards), cards)
	if visible == "" || !known {
		return slots
	}
	behind := []int{}
	for i, place := range shown {
		if slots == nil || slices.Contains(slots, i) {
			behind = append(behind, place)
		}
	}
	return behind
}
