package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// launchCards tells of every node the GPUs that ranks of the launch will use and
// that answer; all that answer where nothing says which ones. A slot is taken for
// NVML's index: CUDA counts alike where a node's GPUs are of one model. Those that
// do not answer are for gpu-healthy alone to speak of.
func launchCards(view View) func(*facts.Node) []*facts.Card {
	slotsOf := slotsByNode(view.Launch)
	return onceANode(func(node *facts.Node) (cards []*facts.Card) {
		slots := slotsOf(node)
		if visible := rankEnv(view, node)["CUDA_VISIBLE_DEVICES"].Value; visible != "" && !view.Launch.ChoosesDevices() {
			slots = throughVisible(slots, visible, node.NVML.Cards)
		}
		for i := range node.NVML.Cards {
			card := &node.NVML.Cards[i]
			if card.Failure == nil && (slots == nil || slices.Contains(slots, card.Index)) {
				cards = append(cards, card)
			}
		}
		return cards
	})
}

// onceANode remembers what was found of a node: rules ask again and again.
func onceANode(find func(*facts.Node) []*facts.Card) func(*facts.Node) []*facts.Card {
	found := map[*facts.Node][]*facts.Card{}
	return func(node *facts.Node) []*facts.Card {
		cards, known := found[node]
		if !known {
			cards = find(node)
			found[node] = cards
		}
		return cards
	}
}

// throughVisible are the GPUs that a process finds at the slots, of those that its
// CUDA_VISIBLE_DEVICES shows it.
func throughVisible(slots []int, visible string, cards []facts.Card) []int {
	shown, known := launch.Visible(visible, len(cards), cards)
	if !known {
		return slots
	}
	behind := []int{}
	for i, index := range shown {
		if slots == nil || slices.Contains(slots, i) {
			behind = append(behind, index)
		}
	}
	return behind
}

// usual is what most GPUs of a model show of a value, the higher of two that are as
// common, by model. A value of 0 is one that is not told.
func usual(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card, value func(*facts.Card) int64) map[string]int64 {
	type shows struct {
		model string
		value int64
	}
	count := map[shows]int{}
	var like shows // neighbours mostly are: they are counted together
	run := 0
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			each := shows{card.Name, value(card)}
			if each != like {
				count[like] += run
				like, run = each, 0
			}
			run++
		}
	}
	count[like] += run
	common := map[string]int64{}
	for each, n := range count {
		most := count[shows{each.model, common[each.model]}]
		if each.value != 0 && (common[each.model] == 0 || n > most || n == most && each.value > common[each.model]) {
			common[each.model] = each.value
		}
	}
	return common
}

// cardRule is one thing that may be wrong with a GPU.
type cardRule struct {
	// Finding is what is said of a node that has such GPUs. In its Fix {gpus} becomes
	// their indices, as nvidia-smi -i takes them.
	Finding
	wrong func(*facts.Card) string // what a GPU shows of it, "" for nothing
}

// judge is a finding of the node if any of its GPUs are so, and the others.
func (r cardRule) judge(node *facts.Node, cards []*facts.Card) (findings []Finding, others []*facts.Card) {
	if !slices.ContainsFunc(cards, func(card *facts.Card) bool { return r.wrong(card) != "" }) {
		return nil, cards
	}
	var shows, numbers []string
	met := map[string][]*facts.Card{}
	for _, card := range cards {
		text := r.wrong(card)
		if text == "" {
			others = append(others, card)
			continue
		}
		if met[text] == nil {
			shows = append(shows, text)
		}
		met[text] = append(met[text], card)
		numbers = append(numbers, strconv.Itoa(card.Index))
	}
	f := r.Finding
	f.Nodes = []string{node.Name}
	for i, text := range shows {
		shows[i] = gpuNames(met[text]) + ": " + text
	}
	f.Got = strings.Join(shows, "; ")
	f.Fix = nil
	for _, fix := range r.Fix {
		f.Fix = append(f.Fix, onMachine(node, strings.ReplaceAll(fix, "{gpus}", strings.Join(numbers, ","))))
	}
	return []Finding{f}, others
}

// firstOf judges by several rules of which a GPU breaks the first one only: what
// comes later is a part of the same trouble.
func firstOf(node *facts.Node, cards []*facts.Card, rules []cardRule) (findings []Finding) {
	for _, rule := range rules {
		found, others := rule.judge(node, cards)
		findings, cards = append(findings, found...), others
	}
	return findings
}

// eachOf judges by rules that have nothing to do with each other.
func eachOf(node *facts.Node, cards []*facts.Card, rules []cardRule) (findings []Finding) {
	for _, rule := range rules {
		found, _ := rule.judge(node, cards)
		findings = append(findings, found...)
	}
	return findings
}

// gpuNames are GPUs as a person looks for them, by address where they are few.
func gpuNames(cards []*facts.Card) string {
	if len(cards) < 3 {
		var names []string
		for _, card := range cards {
			names = append(names, gpuName(*card))
		}
		return strings.Join(names, ", ")
	}
	var numbers []int
	for _, card := range cards {
		numbers = append(numbers, card.Index)
	}
	slices.Sort(numbers)
	return "GPUs " + indices(numbers)
}

// onMachine marks what an administrator must type on the machine, where we came
// to a container on it.
func onMachine(node *facts.Node, fix string) string {
	if containerOf(node) == "" || !strings.Contains(fix, "sudo ") {
		return fix
	}
	if strings.Contains(fix, "   # ") {
		return fix + "; on the machine itself, not in this container"
	}
	return fix + "   # on the machine itself, not in this container"
}

// counted is a number of things in words, "1 row", "3 rows".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// uptime is how long a driver may have counted at most, in seconds; a day where
// that was not seen.
func uptime(node *facts.Node) float64 {
	if node.Host == nil {
		return 86400
	}
	return cmp.Or(node.Host.Uptime, 86400)
}
