// SPDX-License-Identifier: Apache-2.0

// Package gpu checks the GPUs of a launch and their driver, and whether the slots fit them.
//
// It does not check GPUs that the launch does not use.
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

// judgedGPUs returns the nodes whose GPUs a check can read, because their driver works. slots-fit
// and gpu-count report nodes without GPUs of NVIDIA or AMD.
//
// found holds findings that the check must return as well. If there is no such node, that is the
// reason to skip. For each node whose driver fails, it is an unknown. gpu-driver-loads explains
// these unknowns, unless it is switched off.
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

// askedGPUs returns the nodes that show GPUs of NVIDIA or AMD. preflight queried the driver on
// these nodes. If the launch does not use GPUs, reason says why. A launch may use the CPU only
// because no driver works, without saying so. Such a launch may well be meant for GPUs, so its
// nodes are returned.
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

// essential is a fact about a GPU that a check needs. It holds a function that reports whether a
// GPU lacks the fact. It also lists the NVML calls that report the fact, without the suffix of
// their version.
type essential struct {
	missing func(*facts.Card) bool
	calls   []string
}

// refusedFacts returns an unknown for a node whose driver refused to report essential facts about
// GPUs. The driver refuses if the session has insufficient rights. Facts that a GPU or its driver
// does not support do not count. gpu-healthy reports calls that failed for another reason, unless
// it is switched off.
func refusedFacts(view checks.View, node *facts.Node, cards []*facts.Card, essentials ...essential) []checks.Finding {
	explained := !view.Policy.SwitchesOff("gpu-healthy")
	var calls []string
	var refusing []*facts.Card
	for _, card := range cards {
		for _, refusal := range card.Refused {
			lacks := func(fact essential) bool {
				return fact.missing(card) && slices.Contains(fact.calls, withoutVersion(refusal.Call))
			}
			if card.MIG == "enabled" || !slices.ContainsFunc(essentials, lacks) { // with MIG, only the instances have these facts, and only their owners may read them
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
	// resetGPUs replaces resetGPU for GPUs that can only be reset together.
	resetGPUs = fix.On("sudo nvidia-smi --gpu-reset   # all GPUs, because NVLink connects them, when no process uses any; otherwise reboot the node")

	listGPUs = fix.On("nvidia-smi -L; lspci -d 10de:   # shows whether one is missing").As(fix.Look)
	onBus    = fix.On("lspci -d 10de:   # lists NVIDIA devices; no output means that there are none").As(fix.Look)

	// rebootNode is the command that reboots the node. It ends every job on the node, including the
	// jobs of other users.
	rebootNode = fix.On("sudo reboot   # when no job runs there").As(fix.Or)
)

// stayedAway is the remark on a reboot that should bring back a lost GPU.
const stayedAway = "; if the GPU stays away, switch the machine off and on"

// resetTogether reports whether a GPU can only be reset together with the GPUs to which NVLink
// connects it. That is so before Ampere, and on Ampere with NVSwitches whose fabric manager does
// not run.
//
// Source: nvidia-smi(1), driver 550, --gpu-reset.
func resetTogether(node *facts.Node, card *facts.Card) bool {
	if activeLinks(card) == 0 || card.Capability == "" {
		return false
	}
	unmanaged := node.GPU != nil && node.GPU.NVSwitches > 0 && (node.GPU.FabricManager == nil || !node.GPU.FabricManager.Running)
	return hostfile.Before(card.Capability, "8.0") || unmanaged && hostfile.Before(card.Capability, "9.0")
}

// usedCards returns a function that lists, for a node, the GPUs that answer and that ranks will
// use. If the launch does not say which GPUs ranks use, the function lists all GPUs that answer.
// gpu-healthy reports GPUs that do not answer.
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

// placeOf returns the position of a GPU among the GPUs that its node shows. Slots and the topology
// tables use this position. NVML's index is different, because it also counts GPUs that NVML hides
// from this session.
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

// usualOf returns, for each kind of GPU, the value that most GPUs of the kind have. If two values
// are equally common, it returns the higher one. A value of 0 is unknown.
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

// cardRule is a rule for a fault of a GPU.
type cardRule struct {
	// Finding is the finding for a node with such GPUs. In its commands, {gpus} is replaced by the
	// indices of the GPUs for nvidia-smi -i, or by their addresses for amd-smi.
	checks.Finding
	wrong func(*facts.Node, *facts.Card) string // describes the fault of a GPU, "" for none
}

// judge returns a finding if any GPU of the node has the fault. others lists the GPUs that do not
// have it.
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
	if isAMD(node) { // an address, because HIP and amd-smi may number GPUs differently
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

// firstOf applies several rules. For each GPU, only the first rule that it breaks counts, because
// later faults have the same cause.
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

// gpuNames returns a short text that names GPUs. The text includes their addresses if there are
// fewer than three.
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

// counted prints a number with its noun, such as "1 row" or "3 rows".
type counted struct {
	n    int64
	noun string
}

func (c counted) String() string {
	return fmt.Sprintf("%d %s", c.n, english.PluralWord(int(c.n), c.noun, ""))
}

// uptime returns the longest time, in seconds, during which a driver may have counted errors. It is
// the uptime of the machine, or a day if the uptime is not known.
func uptime(node *facts.Node) float64 { return cmp.Or(valueOf(node.Host).Uptime, 86400) }

// orStartWithGPUs returns the commands for a machine. For a container it returns commands that
// start the container again, because a container cannot get additional devices while it runs.
func orStartWithGPUs(node *facts.Node, onMachine ...fix.Command) []fix.Command {
	if container := ranks.ContainerOf(node); container != "" {
		if node.NVML != nil && isAMD(node) {
			return remedy.StartWithAMD(container)
		}
		return remedy.StartWithGPUs(container)
	}
	return onMachine
}

// valueOf returns the value of a fact, or the zero value if the fact is unknown.
func valueOf[T any](fact *T) (value T) {
	if fact != nil {
		value = *fact
	}
	return value
}

// when returns the formatted text if is is true, otherwise "".
func when(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
