package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

var ModelSame = checks.Check{
	ID:       "gpu-model-same",
	Title:    "the launch's GPUs are of one model with one size of memory",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc: "Ranks wait for each other at every step, so that the slowest model sets the pace, and every rank holds as much as the others, so that the smallest memory sets the size. Mixed " +
		"fleets are run on purpose all the same, with a batch that fits the smallest: this is warned of, and nothing here fails a launch. Compared are the GPUs that the slots take; " +
		"their VBIOS as well, where the model is the same: another one may set other limits of power and clock.",
	WouldSee: "nothing: every step takes as long as on the slowest GPU",
	Run:      judgeGPUModels,
}

func judgeGPUModels(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	cardsOf := usedCards(view)
	for _, node := range nodes {
		findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForMemory, neededForName)...)
	}
	unnamed := func(n *facts.Node) bool { return slices.ContainsFunc(cardsOf(n), neededForName.missing) }
	nodes = slices.DeleteFunc(nodes, func(n *facts.Node) bool { return len(cardsOf(n)) == 0 || unnamed(n) })
	sizes := usual(nodes, cardsOf, func(card *facts.Card) int64 { return card.Memory })
	nodes = compare.AsStated(view, nodes, "nvml.cards.*.name")
	models := func(n *facts.Node) string { return distinct(cardsOf(n), modelOf(sizes)) }
	for _, node := range nodes {
		if mixed := models(node); strings.Contains(mixed, ", ") {
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: "the GPUs of a node are not alike", Got: mixed, Want: "one model",
				Remedy: []fix.Command{fix.On("nvidia-smi -L"), fix.Here("deepspeed --include 'NAME:0,1,…' …   # the GPUs of one model alone")},
			})
		}
	}
	for _, d := range compare.Differences(compare.Among(nodes, "GPUs", models)) {
		f := d.Finding("models of GPUs")
		f.Remedy = []fix.Command{fix.Here("deepspeed --exclude %s …   # or keep them, with a batch that fits the smallest", fix.Word(strings.Join(d.Nodes, "@")))}
		if d.Split {
			f.Remedy = []fix.Command{fix.On("nvidia-smi -L   # or keep all, with a batch that fits the smallest")}
		}
		if least, smallest := smallestMemory(nodes, cardsOf); smallest != nil {
			f.WouldSee = fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory, on %s first (%s), where the batch was made for more", hostfile.Fold(smallest), least)
		}
		findings = append(findings, f)
	}
	if !slices.ContainsFunc(findings, func(f checks.Finding) bool { return f.Verdict != checks.Unknown }) {
		findings = append(findings, unlikeVBIOS(nodes, cardsOf)...)
	}
	return findings
}

var neededForName = essential{func(card *facts.Card) bool { return card.Name == "" }, []string{"nvmlDeviceGetName"}}

// asMuch is from which share of another's memory on a GPU has as much: what firmware
// and ECC keep for themselves differs by board and driver.
const asMuch = 0.95

// modelOf is a GPU's name and memory: some models are sold with more than one size. One
// that does not tell its memory has what is usual for the model, if that is told.
func modelOf(usual map[string]int64) func(*facts.Card) string {
	return func(card *facts.Card) string {
		size := card.Memory
		if common := usual[card.Name]; size == 0 || hasAsMuch(size, common) && hasAsMuch(common, size) {
			size = common
		}
		if size == 0 {
			return card.Name
		}
		return fmt.Sprintf("%s with %s", card.Name, humanize.IBytes(uint64(size)))
	}
}

func hasAsMuch(size, other int64) bool { return float64(size) >= asMuch*float64(other) }

// distinct is every value that cards have, once and in order. Nearly always the
// next card is of the same model.
func distinct(cards []*facts.Card, value func(*facts.Card) string) string {
	var values []string
	for i, card := range cards {
		if i > 0 && card.Name == cards[i-1].Name && card.Memory == cards[i-1].Memory && card.VBIOS == cards[i-1].VBIOS {
			continue
		}
		values = append(values, value(card))
	}
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ", ")
}

// smallestMemory is the least that a GPU has and the nodes with such, nil where all
// that tell have as much.
func smallestMemory(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (least string, names []string) {
	var sizes []int64
	of := map[string]int64{}
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			if card.Memory == 0 {
				continue
			}
			sizes = append(sizes, card.Memory)
			if size, met := of[node.Name]; !met || card.Memory < size {
				of[node.Name] = card.Memory
			}
		}
	}
	if sizes == nil || hasAsMuch(slices.Min(sizes), slices.Max(sizes)) {
		return "", nil
	}
	for _, node := range nodes {
		if size, told := of[node.Name]; told && hasAsMuch(slices.Min(sizes), size) {
			names = append(names, node.Name)
		}
	}
	return humanize.IBytes(uint64(slices.Min(sizes))), names
}

func unlikeVBIOS(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) []checks.Finding {
	var findings []checks.Finding
	vbios := func(n *facts.Node) string {
		return distinct(cardsOf(n), func(c *facts.Card) string { return c.VBIOS })
	}
	for _, d := range compare.Differences(compare.Among(nodes, "VBIOS", vbios)) {
		f := d.Finding("VBIOS of the GPUs")
		f.Remedy = []fix.Command{fix.On("nvidia-smi --query-gpu=index,name,vbios_version,power.limit --format=csv   # the maker of the machine has the update")}
		f.WouldSee = "nothing as a rule; a GPU with other limits of power and clock is slower or faster than its peers"
		findings = append(findings, f)
	}
	return findings
}
