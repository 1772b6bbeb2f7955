package launcher

import (
	"cmp"
	"fmt"
	"strconv"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// torchrunArgs judges the numbers that torchrun is told of nodes and processes.
// Without a command nothing is known of them.
func torchrunArgs(view checks.View) []checks.Finding {
	if !view.Launch.Torchrun() || view.Launch.Script == "" {
		return nil
	}
	return append(torchrunNodes(view), torchrunProcesses(view)...)
}

// torchrunNodes: --nnodes is 1 when it is not given.
//
// Source: torch/distributed/run.py, 2.15, parse_min_max_nnodes; the static store
// is asked for exactly that many, the c10d one closes with the last that fits.
func torchrunNodes(view checks.View) []checks.Finding {
	hosts := len(view.Launch.Hosts)
	least, most := cmp.Or(view.Launch.MinNodes, 1), cmp.Or(view.Launch.MaxNodes, 1)
	f := checks.Finding{
		Nodes: []string{view.Head.Name}, Verdict: checks.Fail,
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
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("torchrun takes %d nodes, and there are %d: those that come last start no ranks", most, hosts)
		if view.Launch.Rendezvous == launch.RendezvousStatic {
			f.Verdict = checks.Fail
		}
		f.WouldSee = "nothing on the hosts that are left over: they wait for a place"
	default:
		return nil
	}
	return []checks.Finding{f}
}

// notForeseen is what nobody here can look at.
func notForeseen(view checks.View, note hostfile.Note) []checks.Finding {
	return []checks.Finding{{Verdict: checks.Unknown, Nodes: []string{view.Head.Name}, Summary: note.Message}}
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// torchrunProcesses: a number is taken at its word, whatever the hostfile says.
func torchrunProcesses(view checks.View) []checks.Finding {
	processes, err := strconv.Atoi(cmp.Or(view.Launch.PerNode, "1"))
	if err != nil {
		return nil // auto, gpu, cpu: torchrun counts by itself
	}
	var findings []checks.Finding
	for _, host := range view.Launch.Hosts {
		slots := len(host.Slots)
		f := checks.Finding{
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
				f.Verdict = checks.Fail
			}
		default:
			f.Summary = "torchrun starts fewer processes than the host has slots"
			f.WouldSee = "no message: accelerators that idle"
		}
		findings = append(findings, f)
	}
	return findings
}

// tornElastic: DeepSpeed's own elastic training builds torch's agent as torch
// before 2.3 took it.
//
// Source: pytorch/pytorch 120691, in 2.3, which moved redirects and tee out of
// WorkerSpec; deepspeed/launcher/launch.py, 0.7.0 to 0.19.7. Tried with 2.4.1 and 2.15.
func tornElastic(view checks.View) []checks.Finding {
	if !view.Launch.Elastic || view.Launch.Torchrun() {
		return nil
	}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		version, seen := torchOf(node)
		switch {
		case !node.Reached:
		case !seen:
			findings = append(findings, checks.UnknownFor(node, "which torch it has was not seen, and elastic training starts with torch before 2.3 only"))
		case version != "" && !hostfile.Before(version, "2.3"):
			findings = append(findings, checks.Finding{
				Verdict:  checks.Fail,
				Nodes:    []string{node.Name},
				Summary:  "DeepSpeed's elastic training does not start with torch 2.3 or newer",
				Got:      "torch " + version,
				Want:     "torch before 2.3, or a launch without --elastic_training",
				WouldSee: "TypeError: WorkerSpec.__init__() got an unexpected keyword argument 'redirects'",
				Remedy: []fix.Command{
					fix.Here("deepspeed …   # without --elastic_training, --min_elastic_nodes and --max_elastic_nodes"),
					fix.Here("torchrun --nnodes MIN:MAX --rdzv_backend c10d --rdzv_endpoint HOST:PORT …   # torch's own elastic training, on every node"),
				},
			})
		}
	}
	return findings
}

func torchOf(node *facts.Node) (version string, seen bool) {
	if node.Python == nil {
		return "", false
	}
	if node.Python.Torch != nil {
		return node.Python.Torch.Version, true
	}
	return node.Python.Packages["torch"], true
}
