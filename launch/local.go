// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"preflight/facts"
	"preflight/hostfile"
)

// cpuFallback is the first release that uses the CPU as accelerator if it finds no other
// (accelerator/real_accelerator.py).
const cpuFallback = "0.14.1"

// WithoutHostfile returns the options of a launch that names no other machine. Without a hostfile,
// deepspeed uses every accelerator of the launching machine. If no option selects accelerators and
// CUDA_VISIBLE_DEVICES is set, it uses those in that variable. Its rendezvous is at 127.0.0.1
// despite --master_addr. DeepSpeed's CPU accelerator counts the NUMA nodes that have processors, if
// numactl is installed. For torchrun, the command gives the number of processes. Slots are nil if
// nothing was counted, or if --num_gpus gives the number of ranks on the CPU.
//
// Source: deepspeed/launcher/runner.py, main, and accelerator/cpu_accelerator.py, device_count,
// 0.19.8.
func (o Options) WithoutHostfile(head *facts.Node) (Options, error) {
	slots := o.devices(head)
	o.Hosts = []hostfile.Host{{Name: "localhost", Slots: slots}}
	if o.isTorchrun() {
		return o, nil
	}
	o.MasterAddr = "127.0.0.1"
	f := &o.Filter
	chosen := f.Include != "" || f.Exclude != "" || f.NumNodes.N > 1 || f.NumGPUs.N > 0
	if visible, _ := Lookup(head.Env, "CUDA_VISIBLE_DEVICES"); visible != "" && !chosen {
		f.Include = "localhost:" + visible
	}
	switch {
	case f.Contradicts():
		return o, nil // the filter's own errors are reported first
	case slots != nil && len(slots) == 0:
		return o, &UsageError{Program: ProgramDeepSpeed, Original: "RuntimeError: Unable to proceed, no GPU resources available",
			Message: "there is no hostfile, and this machine shows no accelerator: name the hostfile with --hostfile, or install the driver here"}
	case f.NumNodes.N > 1:
		return o, &UsageError{Program: ProgramDeepSpeed, Original: "ValueError: Num nodes is >1 but no extra nodes available via hostfile",
			Message: fmt.Sprintf("--num_nodes %d, but there is no hostfile that lists them: name it with --hostfile", f.NumNodes.N)}
	}
	return o, nil
}

func (o Options) devices(head *facts.Node) []int {
	count := 0
	if o.Accelerator != "cpu" {
		var known bool
		if count, known = Accelerators(head); !known {
			return nil
		}
	}
	if count == 0 && o.isTorchrun() {
		return nil
	}
	if count == 0 && (o.Accelerator == "cpu" || o.Accelerator == "" && !hostfile.Before(o.DeepSpeed, cpuFallback)) {
		if head.Host == nil || o.Filter.NumGPUs.N > 0 { // any number of ranks can share the CPUs
			return nil
		}
		for _, node := range head.Host.NUMA {
			if node.CPUs != "" {
				count++
			}
		}
		count = max(count, 1)
	}
	return hostfile.FirstSlots(count)
}

// isTorchrun reports whether torchrun starts the ranks, see Prediction.Torchrun.
func (o Options) isTorchrun() bool { return Prediction{Rendezvous: o.Rendezvous}.Torchrun() }

// Resolved returns the prediction after the nodes have reported their accelerators. If no option
// names the accelerator, DS_ACCELERATOR in the ranks' environment decides. If no reached node has
// an accelerator, DeepSpeed uses the CPU. Scripts under torchrun then use the CPU too: their ranks
// use gloo. CPU training then counts as intended only if DS_ACCELERATOR=cpu is set where the launch
// is typed.
//
// Source: accelerator/real_accelerator.py, get_accelerator, 0.14.1 to 0.19.8.
func (p Prediction) Resolved(nodes []facts.Node) Prediction {
	if p.AcceleratorAssumed && p.ranksTakeCPU(nodes) {
		p.Accelerator, p.AcceleratorAssumed = "cpu", false
	}
	if !p.AcceleratorAssumed || !p.Torchrun() && hostfile.Before(p.DeepSpeed, cpuFallback) {
		return p
	}
	seen := false
	for i := range nodes {
		if !nodes[i].Reached {
			continue
		}
		count, known := Accelerators(&nodes[i])
		if !known || count > 0 {
			return p
		}
		seen = true
	}
	if seen {
		p.Accelerator, p.AcceleratorAssumed = "cpu", !p.CPUTyped
	}
	return p
}

// ranksTakeCPU reports whether the environment of all ranks makes DeepSpeed compute on the CPU,
// even if a node has other accelerators. A script under torchrun may not use DeepSpeed at all.
func (p Prediction) ranksTakeCPU(nodes []facts.Node) bool {
	said := false
	for i := range nodes {
		if !nodes[i].Reached {
			continue
		}
		if said = RankEnv(nodes[i].Env, p.Exports).Get("DS_ACCELERATOR").Value == "cpu"; !said {
			return false
		}
	}
	return said && !p.Torchrun()
}
