// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// moreSlots returns the findings for requested slots that the hostfile does not have. A rank
// without a device ends the launch. If every host has as many accelerators as requested, only the
// hostfile is out of date.
func moreSlots(commands func(checks.View, hostfile.Note) []fix.Command) func(checks.View, hostfile.Note) []checks.Finding {
	return func(view checks.View, note hostfile.Note) []checks.Finding {
		f := noteRule{
			fatal:    view.Launch.Accelerator != "cpu" && !enoughDevices(view),
			fix:      commands,
			wouldSee: "RuntimeError: CUDA error: invalid device ordinal",
		}.finding(view, note)
		if f.Verdict == checks.Warn {
			f.WouldSee = "more ranks than slots"
		}
		return []checks.Finding{f}
	}
}

// enoughDevices reports whether every host has an accelerator for each of its slots.
func enoughDevices(view checks.View) bool {
	for _, host := range view.Launch.Hosts {
		if len(host.Slots) > 0 && !hasDevices(view, host.Name, slices.Max(host.Slots)+1) {
			return false
		}
	}
	return true
}

func hasDevices(view checks.View, host string, needed int) bool {
	devices, seen := devicesOf(view, host)
	return seen && devices >= needed
}

func devicesOf(view checks.View, host string) (count int, seen bool) {
	i := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == host })
	if i < 0 {
		return 0, false
	}
	return launch.Accelerators(&view.All[i])
}

// fewestDevices returns the command with the largest --num_gpus that all hosts support.
func fewestDevices(view checks.View, _ hostfile.Note) []fix.Command {
	fewest := 0
	for _, host := range view.Launch.Hosts {
		if devices, seen := devicesOf(view, host.Name); seen && (fewest == 0 || devices < fewest) {
			fewest = devices
		}
	}
	if fewest == 0 {
		return []fix.Command{fix.Here("deepspeed --num_gpus N …   # N: at most the slots of the smallest host").As(fix.Or)}
	}
	return []fix.Command{fix.Here("deepspeed --num_gpus %s …   # the accelerators of the smallest host", fix.Number(fewest))}
}

// zeroSlots returns the finding for a host without slots. That is an error only for the first host.
// Rank 0 then runs on another host and serves there, but all ranks still connect to the first host.
func zeroSlots(view checks.View, note hostfile.Note) []checks.Finding {
	p := view.Launch
	first := p.Hosts[0]
	fatal := first.Line == note.Line && len(first.Slots) == 0 && p.WorldSize() > 0 && p.MasterAddr == "" && !p.Torchrun()
	rule := noteRule{fatal: fatal, fix: command(fix.Here("sed -E -i '{line}d' {hostfile}"))}
	if fatal {
		rule.wouldSee = "The client socket has timed out after 600000ms while trying to connect to the first host, where no rank runs"
	}
	return []checks.Finding{rule.finding(view, note)}
}

// startsHere returns the finding for a hostfile with a single host. DeepSpeed then starts the ranks
// on the launching machine, which is right only if the launching machine is that host.
func startsHere(view checks.View, note hostfile.Note) []checks.Finding {
	if _, isNode := ranks.HeadNode(view); isNode {
		return nil
	}
	f := checks.Finding{
		Summary:  note.Message,
		Remedy:   []fix.Command{fix.Here("deepspeed --force_multi …   # or launch from that host")},
		WouldSee: "The client socket has timed out after 600000ms while trying to connect to the master address, where no rank runs",
	}
	host := view.All[0]
	_, here := launch.Machine(view.Head)
	_, there := launch.Machine(&host)
	switch {
	case meetsHere(view):
		f.Verdict = checks.Warn
		f.WouldSee = "training on the launching machine, while the host of the hostfile is idle"
	// The ssh checks report an unreached host. Without a launch command, it is
	// not known that deepspeed starts this job, nor that it does so here.
	case !host.Reached, view.Launch.Script == "":
		f.Verdict = checks.Warn
	case !here || !there:
		return []checks.Finding{checks.UnknownFor(view.Head, fmt.Sprintf(
			"DeepSpeed starts the ranks of a single host on the launching machine; preflight cannot tell whether that is %s", host.Name))}
	default:
		f.Verdict = checks.Fail
	}
	return []checks.Finding{f}
}

// meetsHere reports whether the master address of the command belongs to the launching machine.
func meetsHere(view checks.View) bool {
	address, err := netip.ParseAddr(view.Launch.MasterAddr)
	switch {
	case view.Launch.MasterAddr == "localhost":
		return true
	case err != nil:
		return false
	case address.IsLoopback():
		return true
	}
	return view.Head.Net != nil && slices.Contains(names.AddressesOf(view.Head), address)
}

// torchrunArgs checks the number of nodes and the number of processes per node that torchrun is
// given. Without a command these numbers are unknown.
func torchrunArgs(view checks.View) []checks.Finding {
	if !view.Launch.Torchrun() || view.Launch.Script == "" {
		return nil
	}
	return append(torchrunNodes(view), torchrunProcesses(view)...)
}

// torchrunNodes checks --nnodes, which is 1 by default.
//
// Source: torch/distributed/run.py, 2.15, parse_min_max_nnodes. The static store waits for exactly
// that many nodes; the c10d one closes when the last one that fits has joined.
func torchrunNodes(view checks.View) []checks.Finding {
	hosts := len(view.Launch.Hosts)
	least, most := cmp.Or(view.Launch.MinNodes, 1), cmp.Or(view.Launch.MaxNodes, 1)
	f := checks.Finding{
		Verdict: checks.Fail,
		Got:     fmt.Sprintf("--nnodes %s for %d hosts", span(least, most), hosts),
		Remedy:  []fix.Command{fix.Here("torchrun --nnodes %s …   # the same on every host", fix.Number(hosts))},
	}
	switch {
	case hosts < least:
		f.Summary = fmt.Sprintf("torchrun waits for %d nodes, but the launch has %d", least, hosts)
		f.WouldSee = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
	case most == 1 && hosts > 1:
		f.Summary = fmt.Sprintf("--nnodes is 1, so each of the %d hosts trains alone", hosts)
		f.WouldSee = "no message: every host runs a training of its own"
	case hosts > most:
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("torchrun takes only %d of the %d nodes; the last ones start no ranks", most, hosts)
		if view.Launch.Rendezvous == launch.RendezvousStatic {
			f.Verdict = checks.Fail
		}
		f.WouldSee = "nothing on the surplus hosts: they wait"
	default:
		return nil
	}
	return []checks.Finding{f}
}

// waitsForNode is the error of torchrun's static backend after five minutes, if a node of the
// launch did not join.
const waitsForNode = "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /none/torchelastic/role_info/1"

// oneNodeRankForAll warns if each of several nodes would start as the first node.
func oneNodeRankForAll(view checks.View, note hostfile.Note) []checks.Finding {
	if len(view.Launch.Hosts) < 2 {
		return nil
	}
	return []checks.Finding{noteRule{fix: ownNodeRank, wouldSee: waitsForNode}.finding(view, note)}
}

// ownNodeRank returns the command that gives the first host its own rank. The command has the form
// that the program of the launch needs.
func ownNodeRank(view checks.View, _ hostfile.Note) []fix.Command {
	option := fix.Code("--node_rank 0")
	if view.Launch.Program == launch.ProgramAccelerate {
		option = fix.Code("--machine_rank 0")
	}
	var typed fix.Command
	switch framework := view.Launch.Framework; {
	case framework == "axolotl":
		typed = fix.Here("axolotl train … -- %s …", option)
	case framework != "": // all other frameworks read the variable
		typed = fix.Here("NODE_RANK=0 %s …", fix.Name(framework))
	case view.Launch.Program == launch.ProgramAccelerate:
		typed = fix.Here("accelerate launch %s …", option)
	default:
		typed = fix.Here("torchrun %s …", option)
	}
	return []fix.Command{typed.Remark("on %s; use the next number on each other node", fix.Text(view.Launch.Hosts[0].Name))}
}

// optionsFirst returns the launch command with a gap before the script for the misplaced options.
func optionsFirst(view checks.View, _ hostfile.Note) []fix.Command {
	launcher := fix.Code("deepspeed")
	switch view.Launch.Program {
	case launch.ProgramTorchrun:
		launcher = fix.Code("torchrun")
	case launch.ProgramAccelerate:
		launcher = fix.Code("accelerate launch")
	}
	return []fix.Command{fix.Here("%s … %s …", launcher, fix.Path(view.Launch.Script)).Remark("with these options before the script")}
}

// meetsWithoutRank returns the command with which srun can start the same words on every node.
func meetsWithoutRank(view checks.View, _ hostfile.Note) []fix.Command {
	first := fix.Host(view.Launch.Hosts[0].Name)
	if view.Launch.Program == launch.ProgramAccelerate {
		return []fix.Command{fix.Here("srun accelerate launch --rdzv_backend c10d --main_process_ip %s …", first)}
	}
	return []fix.Command{fix.Here("srun torchrun --rdzv_backend c10d --rdzv_endpoint %s:29400 …", first)}
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// torchrunProcesses checks --nproc_per_node, which torchrun follows whatever the hostfile says.
func torchrunProcesses(view checks.View) []checks.Finding {
	processes, err := strconv.Atoi(cmp.Or(view.Launch.PerNode, "1"))
	if err != nil {
		return nil // the value is auto, gpu or cpu: torchrun counts the devices
	}
	var findings []checks.Finding
	for _, host := range view.Launch.Hosts {
		slots := len(host.Slots)
		f := checks.Finding{
			Nodes:  []string{host.Name},
			Got:    fmt.Sprintf("--nproc-per-node %d, slots=%d", processes, slots),
			Remedy: []fix.Command{fix.Here("torchrun --nproc_per_node gpu …   # one for each GPU")},
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
		case view.Launch.Accelerator == "cpu":
			continue // a slot on this host is only a process, without a device
		default:
			f.Summary = "torchrun starts fewer processes than the host has slots"
			f.WouldSee = "no message: some accelerators are idle"
		}
		findings = append(findings, f)
	}
	return findings
}

// brokenElastic fails DeepSpeed's elastic training with a new torch. DeepSpeed creates torch's
// agent in a way that torch 2.3 and later no longer accept.
//
// Source: pytorch/pytorch 120691, in 2.3, which moved redirects and tee out of WorkerSpec;
// deepspeed/launcher/launch.py, 0.7.0 to 0.19.7. Tried with 2.4.1 and 2.15.
func brokenElastic(view checks.View) []checks.Finding {
	if !view.Launch.Elastic || view.Launch.Torchrun() {
		return nil
	}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		version, seen := torchOf(node)
		switch {
		case !node.Reached:
		case !seen:
			findings = append(findings, checks.UnknownFor(node, "its torch version is unknown, and elastic training needs torch before 2.3"))
		case version != "" && !hostfile.Before(version, "2.3"):
			findings = append(findings, checks.Finding{
				Verdict:  checks.Fail,
				Nodes:    []string{node.Name},
				Summary:  "DeepSpeed's elastic training needs torch before 2.3",
				Got:      "torch " + version,
				Want:     "torch before 2.3, or a launch without --elastic_training",
				WouldSee: "TypeError: WorkerSpec.__init__() got an unexpected keyword argument 'redirects'",
				Remedy: []fix.Command{
					fix.Here("deepspeed …   # without --elastic_training, --min_elastic_nodes and --max_elastic_nodes"),
					fix.Here("torchrun --nnodes MIN:MAX --rdzv_backend c10d --rdzv_endpoint HOST:PORT …   # torch's own elastic training, on every node").As(fix.Or),
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
