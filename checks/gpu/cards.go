package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
)

// usedCards tells of every node the GPUs that ranks of the launch will use and
// that answer; all that answer where nothing says which ones. Those that do not are
// for gpu-healthy alone to speak of.
func usedCards(view checks.View) func(*facts.Node) []*facts.Card {
	return checks.Remember(view, cardsKey{}, func() func(*facts.Node) []*facts.Card {
		usedOf := view.Launch.GPUsUsed()
		return onceANode(func(node *facts.Node) (cards []*facts.Card) {
			used := usedOf(node)
			for i := range node.NVML.Cards {
				if card := &node.NVML.Cards[i]; card.Failure == nil && slices.Contains(used, i) {
					cards = append(cards, card)
				}
			}
			return cards
		})
	})
}

type cardsKey struct{}

// placeOf is a GPU's place among its node's, by which slots count, and the tables of
// what lies between GPUs; NVML's index counts those that it hides from this session too.
func placeOf(node *facts.Node, card *facts.Card) int {
	place := 0
	for &node.NVML.Cards[place] != card {
		place++
	}
	return place
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

// usual is usualOf the models.
func usual(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card, value func(*facts.Card) int64) map[string]int64 {
	return usualOf(nodes, cardsOf, func(card *facts.Card) string { return card.Name }, value)
}

// usualOf is what most GPUs of a kind show of a value, the higher of two that are as
// common, by kind. A value of 0 is one that is not told.
func usualOf(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card, kind func(*facts.Card) string, value func(*facts.Card) int64) map[string]int64 {
	type shows struct {
		kind  string
		value int64
	}
	count := map[shows]int{}
	var like shows // neighbours mostly are: they are counted together
	run := 0
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			each := shows{kind(card), value(card)}
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
		most := count[shows{each.kind, common[each.kind]}]
		if each.value != 0 && (common[each.kind] == 0 || n > most || n == most && each.value > common[each.kind]) {
			common[each.kind] = each.value
		}
	}
	return common
}

// cardRule is one thing that may be wrong with a GPU.
type cardRule struct {
	// Finding is what is said of a node that has such GPUs. In its commands {gpus} becomes
	// their indices, as nvidia-smi -i takes them.
	checks.Finding
	wrong func(*facts.Card) string // what a GPU shows of it, "" for nothing
}

// judge is a finding of the node if any of its GPUs are so, and the others.
func (r cardRule) judge(node *facts.Node, cards []*facts.Card) (findings []checks.Finding, others []*facts.Card) {
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
	f.Remedy = nil
	together := slices.ContainsFunc(cards, func(card *facts.Card) bool { return r.wrong(card) != "" && resetTogether(node, card) })
	gpus := map[string]fix.Arg{"gpus": fix.Name(strings.Join(numbers, ","))}
	for _, command := range r.Remedy {
		if command.Is(resetGPU) && together {
			command = resetGPUs
		}
		f.Remedy = append(f.Remedy, remedy.OnMachine(node, command.Bind(gpus)))
	}
	return []checks.Finding{f}, others
}

// firstOf judges by several rules of which a GPU breaks the first one only: what
// comes later is a part of the same trouble.
func firstOf(node *facts.Node, cards []*facts.Card, rules []cardRule) (findings []checks.Finding) {
	for _, rule := range rules {
		found, others := rule.judge(node, cards)
		findings, cards = append(findings, found...), others
	}
	return findings
}

// eachOf judges by rules that have nothing to do with each other.
func eachOf(node *facts.Node, cards []*facts.Card, rules []cardRule) (findings []checks.Finding) {
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
