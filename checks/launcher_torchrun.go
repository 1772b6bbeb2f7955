package checks

import (
	"cmp"
	"fmt"
	"strconv"

	"preflight/checks/fix"
	"preflight/hostfile"
	"preflight/launch"
)

// torchrunArgs judges the numbers that torchrun is told of nodes and processes.
// Without a command nothing is known of them.
func torchrunArgs(view View) []Finding {
	if !view.Launch.Torchrun() || view.Launch.Script == "" {
		return nil
	}
	return append(torchrunNodes(view), torchrunProcesses(view)...)
}

// torchrunNodes: --nnodes is 1 when it is not given.
//
// Source: torch/distributed/run.py, 2.15, parse_min_max_nnodes; the static store
// is asked for exactly that many, the c10d one closes with the last that fits.
func torchrunNodes(view View) []Finding {
	hosts := len(view.Launch.Hosts)
	least, most := cmp.Or(view.Launch.MinNodes, 1), cmp.Or(view.Launch.MaxNodes, 1)
	f := Finding{
		Nodes: []string{view.Head.Name}, Verdict: Fail,
		Got:    fmt.Sprintf("--nnodes %s for %d hosts", span(least, most), hosts),
		Remedy: []fix.Command{fix.Here("torchrun --nnodes %s …   # the same on every host", fix.Number(hosts))},
	}
	switch {
	case hosts < least:
		f.Summary = fmt.Sprintf("torchrun waits for %d nodes, and there are %d", least, hosts)
		f.WouldSee = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
	case most == 1 && hosts > 1:
		f.Summary = fmt.Sprintf("torchrun is told of one node only: each of the %d hosts trains by itself", hosts)
		f.WouldSee = "no message: as many trainings of one node as there are hosts"
	case hosts > most:
		f.Verdict = Warn
		f.Summary = fmt.Sprintf("torchrun takes %d nodes, and there are %d: those that come last start no ranks", most, hosts)
		if view.Launch.Rendezvous == launch.RendezvousStatic {
			f.Verdict = Fail
		}
		f.WouldSee = "nothing on the hosts that are left over: they wait for a place"
	default:
		return nil
	}
	return []Finding{f}
}

// notForeseen is what nobody here can look at.
func notForeseen(view View, note hostfile.Note) []Finding {
	return []Finding{{Verdict: Unknown, Nodes: []string{view.Head.Name}, Summary: note.Message}}
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// torchrunProcesses: a number is taken at its word, whatever the hostfile says.
func torchrunProcesses(view View) []Finding {
	processes, err := strconv.Atoi(cmp.Or(view.Launch.PerNode, "1"))
	if err != nil {
		return nil // auto, gpu, cpu: torchrun counts by itself
	}
	var findings []Finding
	for _, host := range view.Launch.Hosts {
		slots := len(host.Slots)
		f := Finding{
			Nodes:  []string{host.Name},
			Got:    fmt.Sprintf("--nproc-per-node %d, slots=%d", processes, slots),
			Remedy: []fix.Command{fix.Here("torchrun --nproc-per-node gpu …   # as many as there are")},
		}
		switch {
		case host.Slots == nil || processes == slots:
			continue
		case processes > slots:
			f.Summary = "torchrun starts more processes than the host has slots"
			f.WouldSee = "RuntimeError: CUDA error: invalid device ordinal"
			if view.Launch.Accelerator != "cpu" && !hasDevices(view, host.Name, processes) {
				f.Verdict = Fail
			}
		default:
			f.Summary = "torchrun starts fewer processes than the host has slots"
			f.WouldSee = "no message: accelerators that idle"
		}
		findings = append(findings, f)
	}
	return findings
}
