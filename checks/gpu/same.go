// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

var DriverSame = checks.Check{
	ID:        "gpu-driver-same",
	Severity:  checks.Warning,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"gpu-driver-runs-cuda"},
	Run:       judgeDriversAlike,
}

func judgeDriversAlike(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	npus := compare.Without(view.Nodes, func(n *facts.Node) bool { return valueOf(n.GPU).Ascend == "" })
	if len(nodes) == 0 && len(npus) > 0 && view.Launch.Accelerator != "cpu" {
		return unlikeAscend(npus)
	}
	// gpu-driver-runs-cuda already reports a driver that is too old for torch.
	if tooOld := view.Failing("gpu-driver-runs-cuda"); len(tooOld) < len(nodes) {
		nodes = compare.Without(nodes, func(n *facts.Node) bool { return tooOld[n.Name] })
	}
	showing := func(value func(*facts.Node) string) []*facts.Node {
		return compare.Without(nodes, func(n *facts.Node) bool { return value(n) == "" })
	}
	driver := func(n *facts.Node) string { return n.NVML.Driver }
	rocm := func(n *facts.Node) string { return valueOf(n.GPU).ROCm }
	drivers := compare.Among(showing(driver), "driver", driver).Recorded(view, facts.SectionNVML, driver)
	if drivers.Baseline != nil && *drivers.Baseline == "" {
		drivers.Baseline = nil // the driver did not answer then
	}
	all := compare.ByPolicy(view, drivers, "nvml.driver")
	all = append(all, compare.Among(showing(remedy.ModuleKind), "kernel module", remedy.ModuleKind), compare.Among(showing(rocm), rocmRelease, rocm))
	for _, d := range compare.Differences(all...) {
		f := d.Finding("NVIDIA drivers")
		odd := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == d.Nodes[0] })
		f.Remedy = []fix.Command{remedy.HowInstalled(nodes[odd]).As(fix.Look)}
		if !d.Split {
			if usual := slices.IndexFunc(nodes, func(n *facts.Node) bool { return !slices.Contains(d.Nodes, n.Name) }); sameModels(nodes[odd], nodes[usual]) {
				f.Remedy = append(f.Remedy, sameDriver(d, nodes[odd]))
			} else {
				f.Want += "; these other GPUs may not support it: the open module needs Turing or later, and Blackwell needs the open module and driver 570"
			}
		}
		findings = append(findings, f)
	}
	return inMakersWords(view, "", findings)
}

// unlikeAscend returns the findings for nodes whose Ascend drivers differ.
func unlikeAscend(nodes []*facts.Node) (findings []checks.Finding) {
	release := func(n *facts.Node) string { return n.GPU.Ascend }
	for _, d := range compare.Differences(compare.Among(nodes, "driver", release)) {
		f := d.Finding("Ascend drivers")
		f.Remedy = []fix.Command{fix.On("cat /etc/ascend_install.info; npu-smi info   # shows the package and its firmware").As(fix.Look)}
		if !d.Split {
			f.Remedy = append(f.Remedy, fix.Note("install driver %s on {nodes}, with the firmware that its release notes name, then reboot", fix.Text(remedy.WordOr(d.Deviations[0].Want, "as on the other nodes"))))
		}
		findings = append(findings, f)
	}
	return findings
}

const rocmRelease = "ROCm"

// sameModels reports whether two nodes have GPUs of the same models. The driver of one node then
// works on the other.
func sameModels(a, b *facts.Node) bool {
	models := func(n *facts.Node) (names []string) {
		for i := range n.NVML.Cards {
			names = append(names, n.NVML.Cards[i].Name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return slices.Equal(models(a), models(b))
}

func sameDriver(d compare.Difference, odd *facts.Node) fix.Command {
	if dev := d.Deviations[0]; dev.Name == rocmRelease { // a release of ROCm comes with its driver
		return fix.Note("install ROCm %s in the same way as the present one", fix.Text(remedy.WordOr(dev.Want, "as on the other nodes")))
	}
	version, kind := odd.NVML.Driver, remedy.ModuleKind(odd)
	for _, dev := range d.Deviations {
		switch dev.Name {
		case "driver":
			version = dev.Want
		case "kernel module":
			kind = dev.Want
		}
	}
	return remedy.ExactDriver(odd, version, kind)
}

var ModelSame = checks.Check{
	ID:       "gpu-model-same",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNVML},
	Run:      judgeGPUModels,
}

func judgeGPUModels(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	cardsOf := usedCards(view)
	for _, node := range nodes {
		findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForMemory, neededForName)...)
	}
	unnamed := func(n *facts.Node) bool { return slices.ContainsFunc(cardsOf(n), neededForName.missing) }
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return len(cardsOf(n)) == 0 || unnamed(n) })
	sizes := usual(nodes, cardsOf, func(card *facts.Card) int64 { return card.Memory })
	nodes = compare.AsStated(view, nodes, "nvml.cards.*.name")
	models := func(n *facts.Node) string { return distinct(cardsOf(n), modelOf(sizes)) }
	for _, node := range nodes {
		if mixed := models(node); strings.Contains(mixed, ", ") {
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: "the node has GPUs of more than one model", Got: mixed, Want: "one GPU model",
				Remedy: []fix.Command{listModels, fix.Note("use only the GPUs of one model, with --include 'NAME:0,1,…'")},
			})
		}
	}
	for _, d := range compare.Differences(compare.Among(nodes, "GPUs", models)) {
		f := d.Finding("GPU models")
		f.Remedy = []fix.Command{fix.Note("add --exclude %s to the launch command, or use a batch size that fits the smallest GPU", fix.Word(strings.Join(d.Nodes, "@")))}
		if d.Split {
			f.Remedy = []fix.Command{listModels, fix.Note("use the nodes with one GPU model, or a batch size that fits the smallest GPU")}
		}
		if least, smallest := smallestMemory(nodes, cardsOf); smallest != nil {
			f.WouldSee = fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory, first on %s (%s), if the batch size is meant for larger GPUs", hostfile.Fold(smallest), least)
		}
		findings = append(findings, f)
	}
	if !slices.ContainsFunc(findings, func(f checks.Finding) bool { return f.Verdict != checks.Unknown }) {
		findings = append(findings, unlikeVBIOS(nodes, cardsOf)...)
	}
	return inMakersWords(view, "", findings)
}

var listModels = fix.On("nvidia-smi -L").As(fix.Look)

var neededForName = essential{func(card *facts.Card) bool { return card.Name == "" }, []string{"nvmlDeviceGetName"}}

// asMuch is the ratio of two memory sizes from which the sizes count as equal. Firmware and ECC
// reserve amounts of memory that differ by board and driver.
const asMuch = 0.95

// modelOf returns a function that returns the name and the memory size of a GPU. The size is
// necessary because some models have several memory sizes. A GPU whose memory is unknown gets the
// usual size of its model, if that is known.
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

// distinct returns all values of the cards, sorted and without duplicates. It skips a card of the
// same model as the card before, which is the usual case.
func distinct(cards []*facts.Card, value func(*facts.Card) string) string {
	var values []string
	for i, card := range cards {
		if i > 0 && card.Name == cards[i-1].Name && card.Memory == cards[i-1].Memory && card.VBIOS == cards[i-1].VBIOS && len(card.Firmware) == 0 {
			continue
		}
		values = append(values, value(card))
	}
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ", ")
}

// smallestMemory returns the smallest GPU memory, and the nodes that have it. names is nil if all
// known sizes are equal.
func smallestMemory(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (least string, names []string) {
	var smallest, largest int64
	of := map[string]int64{}
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			if card.Memory > 0 {
				smallest, largest = min(cmp.Or(smallest, card.Memory), card.Memory), max(largest, card.Memory)
				of[node.Name] = min(cmp.Or(of[node.Name], card.Memory), card.Memory)
			}
		}
	}
	if smallest == 0 || hasAsMuch(smallest, largest) {
		return "", nil
	}
	for _, node := range nodes {
		if size, known := of[node.Name]; known && hasAsMuch(smallest, size) {
			names = append(names, node.Name)
		}
	}
	return humanize.IBytes(uint64(smallest)), names
}

var showVBIOS = fix.On("nvidia-smi --query-gpu=index,name,vbios_version,power.limit --format=csv   # updates come from the maker of the machine").As(fix.Look)

func unlikeVBIOS(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) []checks.Finding {
	vbios := func(n *facts.Node) string {
		return distinct(cardsOf(n), func(c *facts.Card) string { return c.VBIOS })
	}
	all := []compare.Comparison{compare.Among(nodes, "VBIOS", vbios)}
	for _, part := range firmwareParts(nodes, cardsOf) {
		all = append(all, compare.Among(nodes, part+" firmware", func(n *facts.Node) string {
			return distinct(cardsOf(n), func(c *facts.Card) string { return c.Firmware[part] })
		}))
	}
	return compare.Findings("VBIOS or firmware of the GPUs", compare.Differences(all...), checks.Finding{
		WouldSee: "usually nothing; a GPU with other power and clock limits is slower or faster than the others", Remedy: []fix.Command{showVBIOS},
	})
}

// firmwareParts returns the sorted names of the GPU parts that report a firmware version.
func firmwareParts(nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) []string {
	parts := map[string]bool{}
	for _, node := range nodes {
		for _, card := range cardsOf(node) {
			for part := range card.Firmware {
				parts[part] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(parts))
}
