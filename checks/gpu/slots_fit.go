// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
)

var SlotsFit = checks.Check{
	ID:       "slots-fit",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionGPU},
	Run: func(view checks.View) []checks.Finding {
		return inMakersWords(view, invalidDevice, judgeSlots(view))
	},
}

// leftTo returns an unknown for a node whose slots do not fit, or may not fit. Another check
// reports the reason.
func leftTo(check string, node *facts.Node) checks.Finding {
	f := checks.UnknownFor(node, "the GPUs of "+node.Name+" are not all shown: see "+check)
	f.Explained = true
	return f
}

func judgeSlots(view checks.View) []checks.Finding {
	p := view.Launch
	cpu := p.Accelerator == "cpu" // preflight assumes this unless the launch names an accelerator
	if cpu && !p.AcceleratorAssumed {
		return checks.Skipped("accelerator cpu: a slot is a process")
	}
	var findings []checks.Finding
	slotsOf, asked := p.SlotsUsed(), false
	noneAnywhere := !slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool {
		count, known := launch.Accelerators(node)
		return !known || count+notShown(view, node) > 0 || driverFails(view, node)
	})
	for _, node := range ranks.Nodes(view) {
		slots := slotsOf(node)
		forEach, forAny := p.PerNode == "gpu", p.PerNode == "auto" // torchrun counts the GPUs itself
		asked = asked || len(slots) > 0 || noneAnywhere && (forEach || forAny)
		count, known := launch.Accelerators(node)
		there := count + notShown(view, node)
		switch {
		case driverFails(view, node):
			findings = append(findings, leftTo("gpu-driver-loads", node))
		case !known:
			findings = append(findings, checks.UnknownFor(node, "the number of accelerators was not reported"))
		case noneAnywhere && forEach:
			findings = append(findings, ranks.OfMachine(view, node, noneToCount(node)))
		case cpu && there == 0 && (forAny || len(slots) > 0):
			findings = append(findings, ranks.OfMachine(view, node, perhapsCPU(node)))
		case len(slots) > 0 && slices.Max(slots) >= there:
			f := tooFew(p, node, slots, count)
			if count == 0 && noneAnywhere {
				f.Remedy = noneThere
			}
			findings = append(findings, ranks.OfMachine(view, node, f))
		case len(slots) > 0 && slices.Max(slots) >= count:
			findings = append(findings, leftTo(cmp.Or(when(lost(node) != nil, "gpu-count"), "gpu-driver-loads"), node))
		case len(slots) > 0 && there == count:
			findings = append(findings, hidden(view, node, slots, count)...)
		}
	}
	if !asked {
		return checks.Skipped("the number of ranks per node is not known")
	}
	return findings
}

// noneThere is the remedy for a fleet without accelerators.
var noneThere = []fix.Command{onBus, meantCPU}

// perhapsCPU returns an unknown for a node that has no accelerator, so that its ranks would use the
// CPU.
func perhapsCPU(node *facts.Node) checks.Finding {
	f := checks.UnknownFor(node, "no node has an accelerator, and whether the launch is meant to use the CPU is not known (--accelerator cpu)")
	f.Remedy = noneThere
	return f
}

// noneToCount returns the finding for a node without GPUs on which torchrun starts one rank per
// GPU.
//
// Source: torch/distributed/run.py, determine_local_world_size, 2.15.
func noneToCount(node *facts.Node) checks.Finding {
	return checks.Finding{
		Nodes: []string{node.Name}, Summary: "torchrun starts one rank per GPU, but the node has no GPU",
		Got: "no accelerator", Want: "a GPU, for --nproc-per-node gpu", WouldSee: "ValueError: Cuda is not available.",
		Remedy: []fix.Command{noneThere[0], fix.Note("if the launch is meant to use the CPU, use torchrun --nproc-per-node cpu on every node")},
	}
}

// driverFails reports whether gpu-driver-loads explains why the GPUs of a node cannot be counted.
func driverFails(view checks.View, node *facts.Node) bool {
	return node.NVML != nil && node.NVML.Failure != nil && !view.Policy.SwitchesOff("gpu-driver-loads")
}

// notShown returns the number of GPUs that a machine has but its driver does not show. Another
// check reports each of these GPUs.
func notShown(view checks.View, node *facts.Node) (count int) {
	if node.NVML == nil || !node.NVML.Asked || node.NVML.Failure != nil {
		return 0
	}
	if !view.Policy.SwitchesOff("gpu-count") {
		count += len(lost(node))
	}
	if !view.Policy.SwitchesOff("gpu-driver-loads") {
		count += len(unheld(node))
	}
	return count
}

// hidden returns the finding for a node that has enough accelerators although a variable hides some
// of them from the ranks. An empty value may hide all of them, so an empty value counts as a value.
func hidden(view checks.View, node *facts.Node, slots []int, count int) []checks.Finding {
	if node.NVML == nil || !node.NVML.Asked {
		return nil
	}
	hiding := view.Launch.Hiding(node)
	shown, known := launch.Shown(hiding, node.NVML.Cards)
	if !known || slices.Max(slots) < len(shown) || len(hiding) == 0 {
		return nil
	}
	f := checks.Finding{
		Nodes: []string{node.Name},
		Got:   fmt.Sprintf("%d of %d accelerators visible", len(shown), count),
		Want:  "slots " + indices(slots),
	}
	var names []string
	for _, setting := range hiding {
		names = append(names, setting.Name)
		f.Got += "; " + ranks.Origin(view, setting)
		f.Remedy = append(f.Remedy, ranks.SearchSession(setting.Name).As(fix.Look), fix.Here("unset %s   # in the shell that starts the ranks", fix.Variable(setting.Name)))
	}
	f.Summary = english.OxfordWordSeries(names, "and") + " " + english.PluralWord(len(names), "hides", "hide") + " accelerators that the ranks need"
	f.Remedy = fix.Steps(f.Remedy...)
	f.WouldSee = when(len(shown) == 0, noGPUs)
	return []checks.Finding{f}
}

var listSome = fix.On("nvidia-smi -L   # shows whether one is missing").As(fix.Look)

func tooFew(p launch.Prediction, machine *facts.Node, slots []int, count int) checks.Finding {
	f := checks.Finding{
		Nodes:   []string{machine.Name},
		Summary: fmt.Sprintf("the launch uses slots %s, but the node has %s", indices(slots), counted{int64(count), "accelerator"}),
		Got:     fmt.Sprintf("%d accelerators, numbered 0 to %d", count, count-1),
		Want:    "slots " + indices(slots),
		Remedy:  append([]fix.Command{listSome}, fewerSlots(p, slots, count)...),
	}
	switch count {
	case 0:
		f.Got = "no accelerator"
	case 1:
		f.Got = "one accelerator, 0"
	}
	if nvml := machine.NVML; nvml != nil {
		f.Got += when(withheld(machine) > 0, "; %d more are hidden from this session", withheld(machine))
		hasMIG := slices.ContainsFunc(nvml.Cards, func(c facts.Card) bool { return c.MIG == "enabled" })
		f.Got += when(hasMIG, "; MIG is on, and CUDA shows a process only one instance")
	}
	if slots[0] >= count {
		// CUDA ignores the rest of CUDA_VISIBLE_DEVICES after the first index that does not exist.
		f.WouldSee = "RuntimeError: No CUDA GPUs are available"
	}
	return f
}

func fewerSlots(p launch.Prediction, slots []int, count int) []fix.Command {
	switch {
	case p.Torchrun() && count > 0:
		return []fix.Command{fix.Note("use torchrun --nproc_per_node=%s on every node", fix.Number(count))}
	case count == 0:
		return []fix.Command{fix.Note("remove {nodes} from {hostfile}")}
	case len(slots) <= count:
		return []fix.Command{fix.Note("use only slots 0 to %s of {nodes} in --include", fix.Number(count-1))}
	}
	return []fix.Command{fix.Note("set slots=%s for {nodes} in {hostfile}, or use deepspeed --num_gpus %[1]s for all nodes", fix.Number(count))}
}

// indices formats slots, as in "0 to 7" or "1, 7".
func indices(slots []int) string {
	first, last := slots[0], slots[len(slots)-1]
	if len(slots) > 2 && last-first == len(slots)-1 {
		return fmt.Sprintf("%d to %d", first, last)
	}
	return strings.Join(text.Map(slots, strconv.Itoa), ", ")
}
