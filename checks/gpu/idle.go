// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// muchMemory is an amount of GPU memory in bytes. Neither a CUDA context alone nor the driver
// itself uses so much. Rules combine it with a share of the GPU's memory.
const muchMemory = 1 << 30

var Idle = checks.Check{
	ID:       "gpu-idle",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := usedCards(view)
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForUse...)...)
			findings = append(findings, usedBy(node, cardsOf(node))...)
			findings = append(findings, firstOf(node, cardsOf(node), hiddenUse(node, cardsOf(node)))...)
		}
		return inMakersWords(view, outOfMemory, findings)
	},
}

const outOfMemory = "torch.OutOfMemoryError: CUDA out of memory"

var (
	showUse    = fix.On("nvidia-smi   # run as root on the machine itself, to see processes of other containers").As(fix.Look)
	showUsers  = fix.On("sudo fuser -v /dev/nvidia*").As(fix.Look)
	showUnseen = fix.On("nvidia-smi   # run on the machine itself: the process belongs to another container or to the host").As(fix.Look)
)

// neededForUse lists the facts that show whether a GPU is in use. Processes of another kind may be
// known even if compute processes are not.
var neededForUse = []essential{
	{func(*facts.Card) bool { return true }, []string{"nvmlDeviceGetComputeRunningProcesses"}},
	{func(card *facts.Card) bool { return card.MemoryUsed == nil }, neededForMemory.calls},
}

// hiddenUse returns rules for memory that no visible process uses. The session sees neither the
// processes of other containers nor processes of which the driver lost track. On aarch64, the
// kernel may keep files in the memory of a GPU that it shares (GH200), and frees that memory on
// demand. WSL shares its GPU with the Windows desktop.
func hiddenUse(node *facts.Node, cards []*facts.Card) []cardRule {
	if !slices.ContainsFunc(cards, func(card *facts.Card) bool { return unexplainedMemory(card) >= muchMemory }) {
		return nil
	}
	windows := slices.Contains(valueOf(node.GPU).Others, launch.WindowsGPUs)
	shared := windows || valueOf(node.Host).Arch == "aarch64"
	commands := []fix.Command{
		showUse,
		showUsers,
		resetGPU,
	}
	if windows {
		commands = []fix.Command{fix.On("nvidia-smi").As(fix.Look), fix.Note("in Windows on {nodes}, close the programs that use GPU memory (Task Manager, Performance, GPU)")}
	}
	rule := func(verdict checks.Verdict, share float64) cardRule {
		return cardRule{checks.Finding{
			Verdict: verdict,
			Summary: "GPU memory is in use, but no visible process uses it",
			Want:    "an idle GPU",
			Remedy:  commands,
		}, func(_ *facts.Node, card *facts.Card) string {
			unexplained := unexplainedMemory(card)
			if unexplained < muchMemory || float64(unexplained) < share*float64(card.Memory) {
				return ""
			}
			return humanize.IBytes(uint64(unexplained)) + " of " + humanize.IBytes(uint64(card.Memory)) + " in use"
		}}
	}
	if shared {
		return []cardRule{rule(checks.Warn, 0.05)}
	}
	return []cardRule{rule(checks.Fail, 0.2), rule(checks.Warn, 0.05)}
}

// unexplainedMemory returns the number of bytes in use that belong to no known process. It returns
// 0 if the use is not known.
func unexplainedMemory(card *facts.Card) int64 {
	unknown := func(p facts.GPUUser) bool { return p.Memory == nil }
	if card.MIG == "enabled" || slices.ContainsFunc(card.Processes, unknown) {
		return 0
	}
	rest := valueOf(card.MemoryUsed)
	for _, process := range card.Processes {
		rest -= *process.Memory
	}
	return max(rest, 0)
}

func describe(p facts.GPUUser) string {
	text := cmp.Or(when(p.Name != "", "%s (pid %d)", p.Name, p.PID), fmt.Sprintf("pid %d", p.PID))
	text += when(p.User != "", " of %s", p.User)
	text += when(p.Memory != nil, " with %s", humanize.IBytes(uint64(valueOf(p.Memory))))
	return text + when(p.Name == "", ", not visible in this session")
}

// verdictOn returns the verdict for a process on a GPU that ranks will use, or "" if the process
// does no harm.
func verdictOn(card *facts.Card, process facts.GPUUser) checks.Verdict {
	large := process.Memory == nil && valueOf(card.MemoryUsed) >= muchMemory || valueOf(process.Memory) >= muchMemory
	switch {
	case launch.IsDaemon(process), process.Kind == "graphics" && !large:
		return ""
	case process.Kind != "graphics" && (large || card.ComputeMode == "exclusive-process"):
		return checks.Fail
	}
	return checks.Warn
}

// usedBy returns one finding for all processes on the GPUs of a node. Its verdict is the gravest
// verdict of these processes.
func usedBy(node *facts.Node, cards []*facts.Card) []checks.Finding {
	f := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Summary: "other processes use GPUs that the ranks need",
		Want:    "idle GPUs",
	}
	on := map[string][]*facts.Card{}
	var programs, seen, unseen []string
	for _, card := range cards {
		for _, process := range card.Processes {
			verdict := verdictOn(card, process)
			if verdict == "" || card.MIG == "enabled" { // gpu-mode reports MIG, and with MIG the processes belong to instances
				continue
			}
			if verdict == checks.Fail {
				f.Verdict = checks.Fail
			}
			program, pid := describe(process), strconv.Itoa(process.PID)
			if on[program] == nil {
				programs = append(programs, program)
			}
			on[program] = append(on[program], card)
			if process.Name == "" {
				unseen = append(unseen, pid)
			} else if !slices.Contains(seen, pid) {
				seen = append(seen, pid)
			}
		}
	}
	if programs == nil {
		return nil
	}
	for i, program := range programs {
		programs[i] = gpuNames(on[program]) + ": " + program
	}
	f.Got = strings.Join(programs, "; ")
	if seen != nil {
		f.Remedy = append(f.Remedy,
			fix.On("ps -o pid,user,lstart,cmd -p %s", fix.Name(strings.Join(seen, ","))).As(fix.Look),
			fix.On("sudo kill %s   # if the owner agrees", fix.List[fix.Name](" ", seen)).As(fix.Or))
	}
	if unseen != nil {
		f.Remedy = append(f.Remedy, showUnseen)
	}
	return []checks.Finding{f}
}
