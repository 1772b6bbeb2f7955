package checks

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// daemons are programs that hold a GPU for everybody: of NVIDIA's driver, of DCGM
// and of MPS. The kernel cuts names after 15 letters.
var daemons = []string{"nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "dcgmi", "nvidia-smi", "nvidia-cuda-mps"}

// use is a process on a GPU that ranks will use.
type use struct {
	card    *facts.Card
	process facts.GPUUser
	verdict Verdict
}

// usesOf are the processes of a GPU that somebody may miss a launch for.
func usesOf(card *facts.Card) (uses []use) {
	for _, process := range card.Processes {
		name := path.Base(process.Name)
		isDaemon := slices.ContainsFunc(daemons, func(daemon string) bool { return strings.HasPrefix(name, daemon) })
		large := process.Memory == nil && orZero(card.MemoryUsed) >= muchMemory || orZero(process.Memory) >= muchMemory
		u := use{card, process, Warn}
		switch {
		case isDaemon, process.Kind == "graphics" && !large:
			continue
		case process.Kind != "graphics" && (large || card.ComputeMode == "exclusive-process"):
			u.verdict = Fail
		}
		uses = append(uses, u)
	}
	return uses
}

// usedBy is one finding for all processes on the GPUs of a node, and its verdict
// the gravest of theirs.
func usedBy(node *facts.Node, uses []use) []Finding {
	if len(uses) == 0 {
		return nil
	}
	f := Finding{
		Verdict: Warn,
		Nodes:   []string{node.Name},
		Summary: "GPUs that ranks will use are in use",
		Want:    "idle GPUs",
	}
	on := map[string][]*facts.Card{}
	var programs, seen, unseen []string
	for _, u := range uses {
		if u.verdict == Fail {
			f.Verdict = Fail
		}
		program := describe(u.process)
		if on[program] == nil {
			programs = append(programs, program)
		}
		on[program] = append(on[program], u.card)
		pid := strconv.Itoa(u.process.PID)
		if u.process.Name == "" {
			unseen = append(unseen, pid)
		} else if !slices.Contains(seen, pid) {
			seen = append(seen, pid)
		}
	}
	for i, program := range programs {
		programs[i] = gpuNames(on[program]) + ": " + program
	}
	f.Got = strings.Join(programs, "; ")
	if seen != nil {
		f.Remedy = append(f.Remedy,
			fix.On("ps -o pid,user,lstart,cmd -p %s", fix.Name(strings.Join(seen, ","))),
			fix.On("sudo kill %s   # once its owner agrees", fix.List[fix.Name](" ", seen)))
	}
	if unseen != nil {
		f.Remedy = append(f.Remedy, fix.On("nvidia-smi   # on the machine itself: the process is of another container or of the host"))
	}
	return []Finding{f}
}
