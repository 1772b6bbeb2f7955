package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// tooFew is a machine with count accelerators, and slots beyond them.
func tooFew(p launch.Prediction, machine *facts.Node, slots []int, count int) Finding {
	f := Finding{
		Nodes:   []string{machine.Name},
		Summary: "ranks are to use accelerators that are not there",
		Got:     fmt.Sprintf("%d accelerators, 0 to %d", count, count-1),
		Want:    "slots " + indices(slots),
		Remedy:  append([]fix.Command{fix.On("nvidia-smi -L   # is one missing?")}, fewerSlots(p, slots, count)...),
	}
	switch count {
	case 0:
		f.Got = "no accelerator"
	case 1:
		f.Got = "one accelerator, 0"
	}
	if machine.NVML != nil && withheld(machine) > 0 {
		f.Got += fmt.Sprintf("; %d more are not for this session", withheld(machine))
	}
	if machine.NVML != nil && slices.ContainsFunc(machine.NVML.Cards, func(c facts.Card) bool { return c.MIG == "enabled" }) {
		f.Got += "; MIG is on, and of its instances CUDA shows a process one"
	}
	if slots[0] >= count {
		// CUDA stops reading CUDA_VISIBLE_DEVICES at the first index that is not there.
		f.WouldSee = "RuntimeError: No CUDA GPUs are available"
	}
	return f
}

// noneAnywhere is for a launch on GPUs of which no node shows any.
var noneAnywhere = []fix.Command{fix.On("lspci -d 10de:   # does the bus show any?"), meantCPU}

// fewerSlots is what to write for machines with count accelerators.
func fewerSlots(p launch.Prediction, slots []int, count int) []fix.Command {
	switch {
	case p.Torchrun() && count > 0:
		return []fix.Command{fix.Here("torchrun --nproc_per_node=%s …   # on every node", fix.Number(count))}
	case count == 0:
		return []fix.Command{fix.Note("take {nodes} out of {hostfile}")}
	case len(slots) <= count:
		return []fix.Command{fix.Note("in --include: slots of 0 to %s for {nodes}", fix.Number(count-1))}
	}
	return []fix.Command{
		fix.Note("in {hostfile}: slots=%s for {nodes}", fix.Number(count)),
		fix.Here("deepspeed --num_gpus %s …   # or: so many on every node", fix.Number(count)),
	}
}

// indices are slots as a person reads them: "0 to 7" or "1, 7".
func indices(slots []int) string {
	first, last := slots[0], slots[len(slots)-1]
	if len(slots) > 2 && last-first == len(slots)-1 {
		return fmt.Sprintf("%d to %d", first, last)
	}
	var words []string
	for _, slot := range slots {
		words = append(words, strconv.Itoa(slot))
	}
	return strings.Join(words, ", ")
}
