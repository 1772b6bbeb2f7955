// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package gpu

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
	"preflight/probe/nvml"
	"preflight/testhosts/gpus"
	"preflight/testhosts/probetest"
)

// driver returns the child that asks a substitute driver. Tests of drivers that hang wait for
// shortQuiet, which must be longer than the start of a process.
func driver(t *testing.T, scenario gpus.Machine) hostsys.Child {
	t.Helper()
	dir := t.TempDir()
	if _, err := gpus.BuildNVML(dir, scenario); err != nil {
		t.Fatal(err)
	}
	asker := nvmlChild()
	asker.Env = append(asker.Env, "LD_LIBRARY_PATH="+dir, gpus.ScenarioVariable+"="+filepath.Join(dir, gpus.ScenarioName))
	return asker
}

// showDriver makes every child ask the given substitute driver.
func showDriver(t *testing.T, scenario gpus.Machine) {
	t.Helper()
	asker := driver(t, scenario)
	for _, variable := range asker.Env[len(asker.Env)-2:] {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

const shortQuiet = 3 * time.Second

func ask(t *testing.T, scenario gpus.Machine) *facts.NVML {
	t.Helper()
	seen, err := askNVML(t.Context(), driver(t, scenario).Stream, shortQuiet)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestDriverTellsAllOfAHealthyMachine(t *testing.T) {
	t.Parallel()
	seen := ask(t, gpus.H100s(8))
	if seen.Failure != nil || len(seen.Cards) != 8 {
		t.Fatalf("%d cards and failure %+v, want 8 and none", len(seen.Cards), seen.Failure)
	}
	none, minor, numa, used, reserved := int64(0), 5, 1, int64(1<<20), int64(551<<20)
	celsius, slowdown, idle, yes, no := 36, 87, 0, true, true
	want := facts.Card{
		Index: 5, UUID: "GPU-51c0fff3-5f2c-4b1e-9d30-000000000005", Name: "NVIDIA H100 80GB HBM3", Serial: "1650523000005",
		VBIOS: "96.00.89.00.01", Capability: "9.0", Address: "0000:c3:00.0", Minor: &minor, NUMANode: &numa, CPUs: "56-111,168-223",
		Memory: 81559 << 20, MemoryUsed: &used, MemoryReserved: &reserved,
		Link:        facts.PCILink{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16, Replays: &none},
		Clock:       facts.GPUClock{SM: 345, MaxSM: 1980, Memory: 2619, MaxMemory: 2619},
		Power:       facts.GPUPower{Draw: 70, Limit: 700, Default: 700, Max: 700},
		Temperature: &celsius, SlowdownAt: &slowdown, Throttle: []string{"gpu-idle"}, Utilization: &idle,
		Persistence: &yes, ComputeMode: "default", MIG: "disabled", MIGPending: "disabled",
		ECC:       &facts.ECC{Enabled: true, Pending: &no, Corrected: &none, Uncorrected: &none, AggregateCorrected: &none, AggregateUncorrected: &none},
		Remapped:  &facts.Remapped{},
		Processes: []facts.GPUUser{},
		NVLinks:   &facts.NVLinks{Count: 18, Speed: 212_496_000_000, RemoteKind: "switch", Counted: true},
		Fabric:    &facts.GPUFabric{State: "completed"},
	}
	if diff := cmp.Diff(want, seen.Cards[5]); diff != "" {
		t.Errorf("GPU 5 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NV18", "NV18", "X", "NV18", "NV18", "NV18", "NV18", "NV18"}, seen.Topology[2]); diff != "" {
		t.Errorf("topology of GPU 2 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ok", "ok", "ok", "ok", "ok", "ok", "ok", "X"}, seen.Peers[7]); diff != "" {
		t.Errorf("peers of GPU 7 (-want +got):\n%s", diff)
	}
	seen.Cards, seen.Topology, seen.Peers = nil, nil, nil
	if diff := cmp.Diff(&facts.NVML{Source: "nvml", Driver: "550.54.15", Library: "12.550.54.15", CUDA: "12.4"}, seen); diff != "" {
		t.Errorf("the driver of itself (-want +got):\n%s", diff)
	}
}

func TestDriverThatDoesNotInitialise(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*gpus.Machine)
		kind   string
		code   int
	}{
		"not loaded":     {func(g *gpus.Machine) { g.Module = "" }, facts.FailureNoDriver, 9},
		"mismatch":       {func(g *gpus.Machine) { g.Module = "535.161.08" }, facts.FailureMismatch, 18},
		"unknown error":  {func(g *gpus.Machine) { g.Init = 999 }, facts.FailureUnknown, 999},
		"no permission":  {func(g *gpus.Machine) { g.Init = 4 }, facts.FailureNoPermission, 4},
		"lost":           {func(g *gpus.Machine) { g.Init = 15 }, facts.FailureLost, 15},
		"not found":      {func(g *gpus.Machine) { g.Init = 6 }, facts.FailureNotFound, 6},
		"a code of ours": {func(g *gpus.Machine) { g.Init = 17 }, facts.FailureOther, 17},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario := gpus.H100s(2)
			test.change(&scenario)
			seen := ask(t, scenario)
			if seen.Failure == nil || seen.Failure.Text == "" {
				t.Fatalf("failure %+v, want one with words", seen.Failure)
			}
			seen.Failure.Text = ""
			want := &facts.NVML{
				Source: "nvml", Library: "12.550.54.15", Cards: []facts.Card{},
				Failure: &facts.NVMLFailure{Kind: test.kind, Code: test.code, Call: "nvmlInit_v2"},
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDriverThatHangsIsKilledAndNamed(t *testing.T) {
	for name, test := range map[string]struct {
		hang  gpus.Call
		text  string
		cards int
	}{
		"at its start":        {gpus.Call{Function: "nvmlInit_v2", GPU: -1}, "the driver did not answer within ", 0},
		"at GPU 3's handle":   {gpus.Call{Function: "nvmlDeviceGetHandleByIndex_v2", GPU: 3}, "GPU 3 did not answer within ", 4},
		"within GPU 3":        {gpus.Call{Function: "nvmlDeviceGetUUID", GPU: 3}, "GPU 3 did not answer within ", 4},
		"between two of them": {gpus.Call{Function: "nvmlDeviceGetP2PStatus", GPU: 0}, "GPU 0 did not answer within ", 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario := gpus.H100s(8)
			scenario.Hang = test.hang
			seen := ask(t, scenario)
			want := &facts.NVMLFailure{Kind: facts.FailureHung, Call: test.hang.Function}
			if seen.Failure == nil || !strings.HasPrefix(seen.Failure.Text, test.text) {
				t.Fatalf("failure %+v, want its words to begin with %q", seen.Failure, test.text)
			}
			want.Text = seen.Failure.Text
			if diff := cmp.Diff(want, seen.Failure); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if len(seen.Cards) != test.cards {
				t.Fatalf("%d cards, want %d", len(seen.Cards), test.cards)
			}
			for _, card := range seen.Cards {
				if card.Index != test.hang.GPU {
					want, complete := (*facts.NVMLFailure)(nil), card.Fabric != nil
					if card.Failure != want || !complete {
						t.Errorf("GPU %d, which did not hang: failure %+v, complete %t", card.Index, card.Failure, complete)
					}
				} else if diff := cmp.Diff(want, card.Failure); diff != "" {
					t.Errorf("failure of GPU %d (-want +got):\n%s", card.Index, diff)
				}
			}
		})
	}
}

func TestDriverThatCrashesIsNamed(t *testing.T) {
	t.Run("by a signal", func(t *testing.T) {
		t.Parallel()
		scenario := gpus.H100s(4)
		scenario.Crash = gpus.Call{Function: "nvmlDeviceGetMemoryInfo_v2", GPU: 2}
		seen := ask(t, scenario)
		want := &facts.NVMLFailure{
			Kind: facts.FailureCrashed, Call: "nvmlDeviceGetMemoryInfo_v2",
			Text: "the process that asked GPU 2 ended: SIGSEGV: segmentation violation",
		}
		if diff := cmp.Diff(want, seen.Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		if len(seen.Cards) != 3 || seen.Cards[2].UUID == "" || seen.Cards[2].Failure == nil {
			t.Errorf("%d cards, want 0, 1 and what GPU 2 told: %+v", len(seen.Cards), seen.Cards)
		}
	})
	t.Run("by a missing symbol", func(t *testing.T) {
		t.Parallel()
		scenario := gpus.H100s(4)
		scenario.Without = []string{"nvmlDeviceGetCount_v2"} // every NVML has this function under only this name
		seen := ask(t, scenario)
		if seen.Failure == nil || seen.Failure.Kind != facts.FailureCrashed || !strings.Contains(seen.Failure.Text, "symbol lookup error: ") {
			t.Errorf("failure %+v, want a crash with the loader's words", seen.Failure)
		}
	})
}

func TestLostGPULeavesTheOthers(t *testing.T) {
	t.Parallel()
	scenario := gpus.A100PCIes(4)
	scenario.Cards[1].Lost = true
	seen := ask(t, scenario)
	if seen.Failure != nil || len(seen.Cards) != 4 {
		t.Fatalf("%d cards and failure %+v, want 4 and none", len(seen.Cards), seen.Failure)
	}
	lost := facts.Card{Index: 1, Failure: &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Call: "nvmlDeviceGetHandleByIndex_v2", Text: "GPU is lost"}}
	if diff := cmp.Diff(lost, seen.Cards[1]); diff != "" {
		t.Errorf("the lost GPU (-want +got):\n%s", diff)
	}
	for _, i := range []int{0, 2, 3} {
		if card := seen.Cards[i]; card.Failure != nil || card.Remapped == nil {
			t.Errorf("GPU %d is not told whole: %+v", i, card)
		}
	}
	// Cards 2 and 3 are behind one PCIe switch.
	if diff := cmp.Diff([][]string{{"X", "", "NODE", "NODE"}, {"", "X", "", ""}, {"NODE", "", "X", "PIX"}, {"NODE", "", "PIX", "X"}}, seen.Topology); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ok", "", "ok", "X"}, seen.Peers[3]); diff != "" {
		t.Errorf("peers of GPU 3 (-want +got):\n%s", diff)
	}

	// The kernel still lists the GPU's address.
	o := machine.Options{}
	for _, card := range scenario.Cards {
		o = probetest.Write(t, o, map[string]string{"/proc/driver/nvidia/gpus/" + card.Address() + "/information": ""})
	}
	addressUnreachable(o, seen.Cards)
	if seen.Cards[1].Address != scenario.Cards[1].Address() {
		t.Errorf("the lost GPU is at %q, want %q", seen.Cards[1].Address, scenario.Cards[1].Address())
	}
}

// TestRefusedCallsLeaveTheCard checks that a sensor that fails costs only its own value. A failed
// call about two GPUs must be recorded too.
func TestRefusedCallsLeaveTheCard(t *testing.T) {
	t.Parallel()
	scenario := gpus.GB200s(2)
	scenario.Cards[1].Fails = map[string]int{"nvmlDeviceGetPowerUsage": 999, "nvmlDeviceGetP2PStatus": 10}
	scenario.Cards[1].Recovery = "drain-and-reset"
	seen := ask(t, scenario)
	if seen.Failure != nil || len(seen.Cards) != 2 {
		t.Fatalf("%d cards and failure %+v, want 2 and none", len(seen.Cards), seen.Failure)
	}
	type told struct {
		Failure  *facts.NVMLFailure
		Refused  []facts.NVMLFailure
		Draw     float64
		Recovery string
		Complete bool
	}
	timeout := facts.NVMLFailure{Kind: facts.FailureOther, Code: 10, Call: "nvmlDeviceGetP2PStatus", Text: "Timeout"}
	want := []told{
		{nil, []facts.NVMLFailure{timeout}, 155, "none", true},
		{nil, []facts.NVMLFailure{{Kind: facts.FailureUnknown, Code: 999, Call: "nvmlDeviceGetPowerUsage", Text: "Unknown Error"}, timeout}, 0, "drain-and-reset", true},
	}
	for i, card := range seen.Cards {
		if diff := cmp.Diff(want[i], told{card.Failure, card.Refused, card.Power.Draw, card.Recovery, card.Fabric != nil}); diff != "" {
			t.Errorf("GPU %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestHiddenGPUsAreCounted checks that GPUs that the driver hides from this session keep their
// index.
func TestHiddenGPUsAreCounted(t *testing.T) {
	t.Parallel()
	scenario := gpus.H100s(4)
	for _, i := range []int{0, 2} {
		scenario.Cards[i].Fails = map[string]int{"nvmlDeviceGetHandleByIndex_v2": 4}
	}
	seen := ask(t, scenario)
	var shown []int
	for _, card := range seen.Cards {
		shown = append(shown, card.Index)
	}
	if seen.Failure != nil || seen.Hidden != 2 || !slices.Equal(shown, []int{1, 3}) {
		t.Errorf("%d hidden, shown %v, failure %+v; want 2, 1 and 3, none", seen.Hidden, shown, seen.Failure)
	}
	if diff := cmp.Diff([][]string{{"X", "NV18"}, {"NV18", "X"}}, seen.Topology); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}

func TestNodesOfGPUsThatAreNotShown(t *testing.T) {
	scenario := gpus.H100s(2)
	scenario.Cards[0].Fails = map[string]int{"nvmlDeviceGetHandleByIndex_v2": 4}
	showDriver(t, scenario)
	seen, err := CollectNVML(t.Context(), probetest.Write(t, machine.Options{}, map[string]string{"/dev/nvidia0": "", "/dev/nvidia1": ""}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]facts.DeviceNode{{Path: "/dev/nvidia0"}}, seen.Unshown); diff != "" || seen.Hidden != 1 {
		t.Errorf("%d hidden (-want +got):\n%s", seen.Hidden, diff)
	}
}

func TestOldDriverDegradesFieldByField(t *testing.T) {
	t.Parallel()
	seen := ask(t, gpus.V100s(8))
	if seen.Failure != nil || len(seen.Cards) != 8 || seen.Driver == "" {
		t.Fatalf("driver %q, %d cards and failure %+v, want 8 cards and no failure", seen.Driver, len(seen.Cards), seen.Failure)
	}
	card := seen.Cards[1]
	if card.Failure != nil || card.Name == "" || card.Memory == 0 || card.MemoryUsed == nil || card.Throttle == nil || card.Processes == nil || card.Retired == nil {
		t.Errorf("GPU 1 tells too little: %+v", card)
	}
	if card.NVLinks == nil || card.NVLinks.RemoteKind != "gpu" || seen.Topology[0][1] != "NV1" {
		t.Errorf("GPU 1 has the links %+v and GPU 0 is joined to it by %q, want links to GPUs, one of them", card.NVLinks, seen.Topology[0][1])
	}
	if card.MemoryReserved != nil || card.Remapped != nil || card.Fabric != nil || card.MIG != "" {
		t.Errorf("GPU 1 tells what driver 450 and Volta do not: %+v", card)
	}
}

// TestLibraryWithEverFewerFunctions removes in each round the functions that were called from the
// library. It ends when only the indispensable functions are left. No missing function may end the
// child.
func TestLibraryWithEverFewerFunctions(t *testing.T) {
	t.Parallel()
	scenario := gpus.H100s(2)
	needed := []string{"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"}
	for {
		var output bytes.Buffer
		asker := driver(t, scenario)
		if stderr, err := asker.Stream(t.Context(), &output); err != nil {
			t.Fatalf("without %q: %v\n%s", scenario.Without, err, stderr)
		}
		missing := len(scenario.Without)
		for text := range strings.Lines(output.String()) {
			var line nvml.Line
			if json.Unmarshal([]byte(text), &line) != nil || !strings.HasPrefix(line.Call, "nvml") {
				continue
			}
			if !slices.Contains(needed, line.Call) && !slices.Contains(scenario.Without, line.Call) {
				scenario.Without = append(scenario.Without, line.Call)
			}
		}
		if len(scenario.Without) == missing {
			break
		}
	}
	if len(scenario.Without) < 40 {
		t.Errorf("only %d functions are asked: %q", len(scenario.Without), scenario.Without)
	}
	want := &facts.NVML{
		Source: "nvml", Cards: []facts.Card{{Index: 0}, {Index: 1}},
		Topology: [][]string{{"X", ""}, {"", "X"}}, Peers: [][]string{{"X", ""}, {"", "X"}},
	}
	if diff := cmp.Diff(want, ask(t, scenario)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDriverIsAskedLazilyWhateverTheSessionBinds(t *testing.T) {
	t.Setenv("LD_BIND_NOW", "1")
	if seen := ask(t, gpus.L4s(1)); len(seen.Cards) != 1 {
		t.Errorf("%+v, want one card", seen)
	}
}

func TestNoDriverIsAskedWithoutASignOfNVIDIA(t *testing.T) {
	// If preflight asked this driver, the result would show the driver's failure.
	hung := gpus.H100s(1)
	hung.Init = 999
	showDriver(t, hung)
	empty := machine.Options{Root: t.TempDir()}
	seen, err := CollectNVML(t.Context(), empty)
	if diff := cmp.Diff(&facts.NVML{Cards: []facts.Card{}}, seen); diff != "" || err != nil {
		t.Errorf("nothing of NVIDIA: %v (-want +got):\n%s", err, diff)
	}
	seen, err = CollectNVML(t.Context(), probetest.Write(t, empty, map[string]string{"/dev/nvidiactl": ""}))
	if err != nil || !seen.Asked || seen.Failure == nil || seen.Failure.Kind != facts.FailureUnknown {
		t.Errorf("a device node of NVIDIA: %+v, %v; want the failure of the driver", seen, err)
	}
}

// BenchmarkDriver measures the whole query of eight GPUs, including the start of the process.
func BenchmarkDriver(b *testing.B) {
	dir := b.TempDir()
	if _, err := gpus.BuildNVML(dir, gpus.H100s(8)); err != nil {
		b.Fatal(err)
	}
	asker := nvmlChild()
	asker.Env = append(asker.Env, "LD_LIBRARY_PATH="+dir, gpus.ScenarioVariable+"="+filepath.Join(dir, gpus.ScenarioName))
	for b.Loop() {
		if seen, err := askNVML(b.Context(), asker.Stream, nvmlQuiet); err != nil || len(seen.Cards) != 8 {
			b.Fatal(err, seen)
		}
	}
}
