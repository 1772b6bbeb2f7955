// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package gpu

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/testhosts/gpus"
	"preflight/testhosts/probetest"
)

// wornOut are machines with something amiss in every corner that is told.
func wornOut() gpus.Machine {
	machine := gpus.A100s(4)
	first, second, third := &machine.Cards[0], &machine.Cards[1], &machine.Cards[2]
	first.Throttle, first.Persistence, first.ComputeMode, first.Link.Width, first.Link.Replays = []string{"hw-slowdown", "sw-thermal", "hw-power-brake"}, false, "exclusive-process", 8, 41
	first.Processes = []gpus.Process{{PID: 4242, Name: "/usr/bin/python3", Kind: "compute", Memory: 20 << 30}, {PID: 77, Name: "Xorg", Kind: "graphics", Memory: 8 << 20}}
	second.ECC = &gpus.ECC{Enabled: true, Corrected: 4, Uncorrected: 1, AggregateCorrected: 90, AggregateUncorrected: 2}
	second.Remapped = &gpus.Remapped{Corrected: 1, Uncorrected: 3, Pending: true, Failed: true}
	second.NVLinks[5].Speed, second.NVLinks[7].CRC, second.NVLinks[7].Replays = 12500, 912, 3
	for _, card := range machine.Cards {
		card.NVLinks[2].Down = true
	}
	second.Clock.AppSM, second.Power.Limit = 1095, 300
	third.MIG, third.MIGPending, third.MIGDevices = "enabled", "disabled", []string{"1g.10gb", "3g.40gb"}
	second.Fails, third.Recovery = map[string]int{"nvmlDeviceGetPowerUsage": 999}, "drain-and-reset"
	third.Apart = map[int]int{0: 1, 1: 4, 3: 5}
	return machine
}

// Of one machine NVML and nvidia-smi tell the same, but for what nvidia-smi is
// known not to tell.
func TestSMITellsWhatNVMLTells(t *testing.T) {
	t.Parallel()
	unlike := cmp.Options{
		cmpopts.IgnoreFields(facts.NVML{}, "Source", "Asked", "Library"),
		cmpopts.IgnoreFields(facts.NVLinks{}, "RemoteKind", "Remotes"),
		cmpopts.IgnoreFields(facts.GPUUser{}, "Name"), // the process table's to tell
		cmpopts.IgnoreFields(facts.NVMLFailure{}, "Call", "Text"),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Throttle" }, cmpopts.SortSlices(func(a, b string) bool { return a < b })),
	}
	for name, scenario := range map[string]gpus.Machine{
		"H100": gpus.H100s(8), "A100 PCIe": gpus.A100PCIes(4), "A100": gpus.A100s(8), "worn out": wornOut(),
		"L4": gpus.L4s(2), "V100": gpus.V100s(4), "RTX 4090": gpus.RTX4090s(2), "GB200": gpus.GB200s(4),
	} {
		t.Run(name, func(t *testing.T) {
			byNVML := ask(t, scenario)
			if byNVML.Failure != nil {
				t.Fatalf("%+v", byNVML.Failure)
			}
			path := filepath.Join(t.TempDir(), "nvidia-smi")
			probetest.Program(t, path, string(scenario.SMI()))
			bySMI, err := askSMI(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range bySMI.Cards {
				if scenario.Driver < "510" { // nvidia-smi did not know how to ask
					byNVML.Cards[i].Capability = ""
				}
			}
			if diff := cmp.Diff(byNVML, bySMI, unlike); diff != "" {
				t.Errorf("(-NVML +nvidia-smi):\n%s", diff)
			}
		})
	}
}
