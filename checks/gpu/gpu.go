// SPDX-License-Identifier: Apache-2.0

// Package gpu judges the GPUs of a launch and their driver, and whether the slots fit them.
//
// It refuses to judge a GPU that the launch does not use.
package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

// judgedGPUs are the nodes whose GPUs a check may judge: those whose driver showed
// all of them. A node that shows nothing of NVIDIA or AMD is for slots-fit and gpu-count to
// speak of. What is found of the others begins with the findings that come along:
// the reason to skip where nothing is to be judged, and an unknown for each node
// whose driver fails, which gpu-driver-loads explains unless it is switched off.
func judgedGPUs(view checks.View) (nodes []*facts.Node, found []checks.Finding) {
	asked, reason := askedGPUs(view)
	if reason != "" {
		return nil, checks.Skipped(reason)
	}
	unexplained := view.Policy.SwitchesOff("gpu-driver-loads")
	nodes = compare.Without(asked, func(n *facts.Node) bool { return n.NVML.Failure != nil })
	for _, node := range asked {
		switch failure := node.NVML.Failure; {
		case failure == nil:
		case unexplained:
			found = append(found, checks.UnknownFor(node, "nvml: the driver does not answer: "+failure.Text))
		default:
			f := checks.UnknownFor(node, "the driver of some nodes fails: see gpu-driver-loads")
			f.Explained = true
			found = append(found, f)
		}
	}
	if len(nodes) == 0 && !unexplained {
		return nil, checks.Skipped("no node has a driver that answers: see gpu-driver-loads")
	}
	return nodes, found
}

// askedGPUs are the nodes that show something of NVIDIA or AMD, so that their driver was
// asked, or the reason why GPUs are not what this launch is about. Where nobody said
// so and it takes the CPU because no driver works, it may well be about them.
func askedGPUs(view checks.View) (nodes []*facts.Node, reason string) {
	fails := func(n *facts.Node) bool { return n.NVML.Failure != nil }
	if view.Launch.Accelerator == "cpu" && !(view.Launch.AcceleratorAssumed && slices.ContainsFunc(view.Nodes, fails)) {
		return nil, "accelerator cpu: no GPU is used"
	}
	others := func(n *facts.Node) bool { return n.GPU != nil && len(n.GPU.Others) > 0 }
	nodes = compare.Without(view.Nodes, func(n *facts.Node) bool { return !n.NVML.Asked })
	switch {
	case len(nodes) > 0:
		return nodes, ""
	case slices.ContainsFunc(view.Nodes, others):
		return nil, "the accelerators are neither NVIDIA's nor AMD's"
	}
	return nil, "no node has an NVIDIA or AMD GPU"
}

func gpuName(card facts.Card) string {
	return fmt.Sprintf("GPU %d (%s)", card.Index, cmp.Or(card.Address, "address unknown"))
}

// essential is a fact of a GPU that a check cannot do without: whether a GPU lacks it,
// and the calls of NVML that would tell it, up to the number of their version.
type essential struct {
	missing func(*facts.Card) bool
	calls   []string
}

// refusedFacts is an unknown of a node whose driver refused to tell essential facts of
// GPUs, as it does to a session without the rights. What a GPU or its driver does not
// have is no refusal, and lacks nothing. Calls that failed for another reason are
// gpu-healthy's finding, unless it is switched off.
func refusedFacts(view checks.View, node *facts.Node, cards []*facts.Card, essentials ...essential) []checks.Finding {
	explained := !view.Policy.SwitchesOff("gpu-healthy")
	var calls []string
	var refusing []*facts.Card
	for _, card := range cards {
		for _, refusal := range card.Refused {
			lacks := func(fact essential) bool {
				return fact.missing(card) && slices.Contains(fact.calls, withoutVersion(refusal.Call))
			}
			if card.MIG == "enabled" || !slices.ContainsFunc(essentials, lacks) { // MIG's instances have the facts, and their owners the rights
				continue
			}
			explained = explained && refusal.Kind != facts.FailureNoPermission
			if text := refusal.Call + ": " + compare.Shown(refusal.Text); !slices.Contains(calls, text) {
				calls = append(calls, text)
			}
			refusing = append(refusing, card)
		}
	}
	if refusing == nil {
		return nil
	}
	f := checks.UnknownFor(node, fmt.Sprintf("the driver refuses to report %s for %s", strings.Join(calls, ", "), gpuNames(slices.Compact(refusing))))
	f.Explained = explained
	return []checks.Finding{f}
}

func withoutVersion(call string) string {
	name, _, _ := strings.Cut(call, "_v")
	return name
}

var (
	neededForMemory = essential{func(card *facts.Card) bool { return card.Memory == 0 }, []string{"nvmlDeviceGetMemoryInfo"}}
	neededForLinks  = essential{func(card *facts.Card) bool { return card.NVLinks == nil }, []string{"nvmlDeviceGetNvLinkState"}}
)

var (
	resetGPU = fix.On("sudo nvidia-smi --gpu-reset -i {gpus}   # when no process uses it; otherwise reboot the node")
	// resetGPUs is what becomes of it where GPUs can be reset together only.
	resetGPUs = fix.On("sudo nvidia-smi --gpu-reset   # all GPUs, because NVLink connects them, when no process uses any; otherwise reboot the node")

	listGPUs = fix.On("nvidia-smi -L; lspci -d 10de:   # shows whether one is missing").As(fix.Look)
	onBus    = fix.On("lspci -d 10de:   # shows whether the bus has any").As(fix.Look)

	// rebootNode ends whatever runs on a node, and not only a launch of ours.
	rebootNode = fix.On("sudo reboot   # when no job runs there").As(fix.Or)
)

// stayedAway is the remark on a reboot for a GPU that the driver has lost.
const stayedAway = "; if the GPU stays away, switch the machine off and on"

// resetTogether is whether a GPU can be reset only with all that NVLink joins it to:
// before Ampere, and on Ampere behind NVSwitches whose fabric manager does not run.
//
// Source: nvidia-smi(1), driver 550, --gpu-reset.
func resetTogether(node *facts.Node, card *facts.Card) bool {
	if activeLinks(card) == 0 || card.Capability == "" {
		return false
	}
	unmanaged := node.GPU != nil && node.GPU.NVSwitches > 0 && (node.GPU.FabricManager == nil || !node.GPU.FabricManager.Running)
	return hostfile.Before(card.Capability, "8.0") || unmanaged && hostfile.Before(card.Capability, "9.0")
}

// usedCards are, by node, the GPUs that ranks of the launch will use and
// that answer; all that answer where nothing says which ones. Those that do not are
// for gpu-healthy alone to speak of.
func usedCards(view checks.View) func(*facts.Node) []*facts.Card {
	return checks.Remember(view, cardsKey{}, func() func(*facts.Node) []*facts.Card {
		usedOf, found := view.Launch.GPUsUsed(), map[*facts.Node][]*facts.Card{}
		return func(node *facts.Node) []*facts.Card {
			cards, known := found[node]
			if !known {
				used := usedOf(node)
				for i := range node.NVML.Cards {
					if card := &node.NVML.Cards[i]; card.Failure == nil && slices.Contains(used, i) {
						cards = append(cards, card)
					}
				}
				found[node] = cards
			}
			return cards
		}
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

func usual(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card, value func(*facts.Card) int64) map[string]int64 {
	return usualOf(nodes, cardsOf, func(card *facts.Card) string { return card.Name }, value)
}

// usualOf is what most GPUs of a kind show of a value, the higher of two that are as
// common, by kind. A value of 0 is unknown.
func usualOf(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card, kind func(*facts.Card) string, value func(*facts.Card) int64) map[string]int64 {
	type shows struct {
		kind  string
		value int64
	}
	count := map[shows]int{}
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			count[shows{kind(card), value(card)}]++
		}
	}
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
	// Finding is that of a node that has such GPUs. In its commands {gpus} becomes
	// their indices, as nvidia-smi -i takes them, or their addresses for amd-smi.
	checks.Finding
	wrong func(*facts.Node, *facts.Card) string // what a GPU shows of it, "" for nothing
}

// judge is a finding of the node if any of its GPUs are so, and the others.
func (r *cardRule) judge(node *facts.Node, cards []*facts.Card) (findings []checks.Finding, others []*facts.Card) {
	if !slices.ContainsFunc(cards, func(card *facts.Card) bool { return r.wrong(node, card) != "" }) {
		return nil, cards
	}
	var shows, numbers, addresses []string
	met := map[string][]*facts.Card{}
	together := false
	for _, card := range cards {
		text := r.wrong(node, card)
		if text == "" {
			others = append(others, card)
			continue
		}
		if met[text] == nil {
			shows = append(shows, text)
		}
		met[text] = append(met[text], card)
		numbers, addresses = append(numbers, strconv.Itoa(card.Index)), append(addresses, card.Address)
		together = together || resetTogether(node, card)
	}
	for i, text := range shows {
		shows[i] = gpuNames(met[text]) + ": " + text
	}
	f := r.Finding
	f.Nodes, f.Got, f.Remedy = []string{node.Name}, strings.Join(shows, "; "), nil
	gpus := map[string]fix.Arg{"gpus": fix.Name(strings.Join(numbers, ","))}
	if isAMD(node) { // HIP and amd-smi need not count alike
		gpus["gpus"] = fix.List[fix.Name](" ", addresses)
	}
	for _, command := range r.Remedy {
		if unroled(command) == unroled(resetGPU) && together {
			command = resetGPUs.As(command.Role())
		}
		f.Remedy = append(f.Remedy, remedy.OnMachine(node, typedFor(node, command).Bind(gpus)))
	}
	return []checks.Finding{f}, others
}

// firstOf judges by several rules of which a GPU breaks the first one only: what
// comes later is a part of the same trouble.
func firstOf(node *facts.Node, cards []*facts.Card, lists ...[]cardRule) (findings []checks.Finding) {
	for _, rules := range lists {
		for i := range rules {
			found, others := rules[i].judge(node, cards)
			findings, cards = append(findings, found...), others
		}
	}
	return findings
}

func eachOf(node *facts.Node, cards []*facts.Card, lists ...[]cardRule) (findings []checks.Finding) {
	for _, rules := range lists {
		for i := range rules {
			found, _ := rules[i].judge(node, cards)
			findings = append(findings, found...)
		}
	}
	return findings
}

// gpuNames are GPUs as a person looks for them, by address where they are few.
func gpuNames(cards []*facts.Card) string {
	var names []string
	var numbers []int
	for _, card := range cards {
		names, numbers = append(names, gpuName(*card)), append(numbers, card.Index)
	}
	if len(cards) < 3 {
		return strings.Join(names, ", ")
	}
	slices.Sort(numbers)
	return "GPUs " + indices(numbers)
}

// counted is a number of things in words, "1 row", "3 rows".
type counted struct {
	n    int64
	noun string
}

func (c counted) String() string {
	return fmt.Sprintf("%d %s", c.n, english.PluralWord(int(c.n), c.noun, ""))
}

// uptime is how long a driver may have counted at most, in seconds; a day where
// that was not seen.
func uptime(node *facts.Node) float64 { return cmp.Or(valueOf(node.Host).Uptime, 86400) }

// orStartWithGPUs is what helps on a machine; a container never gets what it was not given
// when it was started.
func orStartWithGPUs(node *facts.Node, onMachine ...fix.Command) []fix.Command {
	if container := ranks.ContainerOf(node); container != "" {
		if node.NVML != nil && isAMD(node) {
			return remedy.StartWithAMD(container)
		}
		return remedy.StartWithGPUs(container)
	}
	return onMachine
}

// valueOf is a fact, the zero value where it is unknown.
func valueOf[T any](fact *T) (value T) {
	if fact != nil {
		value = *fact
	}
	return value
}

// when is a text where something is so, else "".
func when(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
