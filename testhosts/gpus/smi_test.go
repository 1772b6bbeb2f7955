// SPDX-License-Identifier: Apache-2.0

package gpus_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts/gpus"
)

// named is a new machine of that name.
func named(t *testing.T, name string) gpus.Machine {
	t.Helper()
	for _, scenario := range gpus.Scenarios {
		if scenario.Name == name {
			return scenario.GPUs()
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return gpus.Machine{}
}

// runSMI runs the stand-in and returns what it prints and its exit code, which is
// -1 for a signal.
func runSMI(t *testing.T, scenario gpus.Machine, arguments ...string) (output string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, scenario.SMI(), 0o755); err != nil {
		t.Fatal(err)
	}
	// By its interpreter: while another test forks, a file just written may be busy.
	cmd := exec.Command("/bin/sh", append([]string{path}, arguments...)...)
	out, _ := cmd.Output() // the code tells
	return string(out), cmd.ProcessState.ExitCode()
}

func TestSMIWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		scenario string
		code     int
		words    string
	}{
		{"driver-unloaded", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n"},
		{"driver-mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n"},
		{"driver-unknown-error", 255, "Failed to initialize NVML: Unknown Error\n"},
		{"driver-no-permission", 4, "Failed to initialize NVML: Insufficient Permissions\n"},
		{"driver-gpu-lost", 15, "Failed to initialize NVML: GPU is lost\n"},
		{"driver-no-devices", 6, "No devices were found\n"},
		{"driver-crash", -1, ""},
	}
	for _, test := range tests {
		for _, arguments := range [][]string{nil, {"-q", "-x"}, {"-L"}} {
			words, code := runSMI(t, named(t, test.scenario), arguments...)
			if words != test.words || code != test.code {
				t.Errorf("%s, nvidia-smi %q: exit code %d, %q", test.scenario, arguments, code, words)
			}
		}
	}
	lost := gpus.V100s(8)
	lost.Cards[3].Lost = true
	want := "Unable to determine the device handle for GPU 0000:35:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
	if words, code := runSMI(t, lost, "-q", "-x"); words != want || code != 15 {
		t.Errorf("a lost card and an old driver: exit code %d, %q", code, words)
	}
	if words, code := runSMI(t, gpus.L4s(1), "--frobnicate"); code != 2 || !strings.HasPrefix(words, "Invalid combination of input arguments.") {
		t.Errorf("an argument that it does not know: exit code %d, %q", code, words)
	}
}

func TestSMITables(t *testing.T) {
	t.Parallel()
	mig := gpus.A100s(2)
	mig.Cards[1].MIG, mig.Cards[1].MIGDevices = "enabled", []string{"3g.40gb"}
	mig.Cards[0].NVLinks[2].Down = true
	pairs, lost, linked := gpus.A100PCIes(3), gpus.L4s(2), gpus.H100s(1)
	pairs.Cards[0].Apart = map[int]int{2: 3}
	lost.Cards[0].Lost = true
	linked.Cards[0].NVLinks = []gpus.NVLink{{Speed: 26562, Replays: 7, Recover: 8, CRC: 9}, {Speed: 26562, Down: true}}
	tests := []struct {
		name     string
		scenario gpus.Machine
		argument []string
		want     []string // lines, spaces within them as one
	}{
		{"list", mig, []string{"-L"}, []string{
			"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-51c0ffee-5f2c-4b1e-9d30-000000000000)",
			"GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-51c0ffef-5f2c-4b1e-9d30-000000000001)",
			"MIG 3g.40gb Device 0: (UUID: MIG-51c0ffef-5f2c-4b1e-9d30-000000000000)",
		}},
		{"PCIe", pairs, []string{"topo", "-m"}, []string{
			"GPU0 GPU1 GPU2 CPU Affinity NUMA Affinity GPU NUMA ID",
			"GPU0 X PIX NODE 0-55,112-167 0 N/A",
			"GPU1 PIX X NODE 0-55,112-167 0 N/A",
			"GPU2 NODE NODE X 0-55,112-167 0 N/A",
		}},
		{"switches", mig, []string{"topo", "-m"}, []string{
			"GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID",
			"GPU0 X NV11 0-55,112-167 0 N/A",
			"GPU1 NV12 X 0-55,112-167 0 N/A",
		}},
		{"lost", lost, []string{"-L"}, []string{
			"Unable to determine the device handle for GPU0: 0000:31:00.0: GPU is lost. Reboot the system to recover this GPU",
			"GPU 1: NVIDIA L4 (UUID: GPU-51c0ffef-5f2c-4b1e-9d30-000000000001)",
		}},
		{"peers", pairs, []string{"topo", "-p2p", "w"}, []string{
			"GPU0 GPU1 GPU2", "GPU0 X OK TNS", "GPU1 OK X OK", "GPU2 OK OK X",
			"", "Legend:", "", "X = Self", "OK = Status Ok",
		}},
		{"links", linked, []string{"nvlink", "-s"}, []string{
			"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-51c0ffee-5f2c-4b1e-9d30-000000000000)",
			"Link 0: 26.562 GB/s", "Link 1: <inactive>",
		}},
		{"links' errors", linked, []string{"nvlink", "-e"}, []string{
			"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-51c0ffee-5f2c-4b1e-9d30-000000000000)",
			"Link 0: Replay Errors: 7", "Link 0: Recovery Errors: 8", "Link 0: CRC Errors: 9",
			"Link 1: Replay Errors: 0", "Link 1: Recovery Errors: 0", "Link 1: CRC Errors: 0",
		}},
		{"capabilities", pairs, []string{"--query-gpu=pci.bus_id,compute_cap", "--format=csv,noheader"}, []string{
			"00000000:14:00.0, 8.0", "00000000:15:00.0, 8.0", "00000000:34:00.0, 8.0",
		}},
		{"table", gpus.L4s(1), nil, []string{
			"| NVIDIA-SMI 550.54.15 Driver Version: 550.54.15 CUDA Version: 12.4 |",
			"| 0 NVIDIA L4 00000000:31:00.0 1MiB / 23034MiB 0% |",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output, code := runSMI(t, test.scenario, test.argument...)
			var got []string
			for line := range strings.Lines(output) {
				if line = strings.Join(strings.Fields(line), " "); !strings.HasPrefix(line, "+-") {
					got = append(got, line)
				}
			}
			wantCode := map[string]int{"lost": 15}[test.name]
			if diff := cmp.Diff(test.want, got); diff != "" || code != wantCode {
				t.Errorf("exit code %d\n%s", code, diff)
			}
		})
	}
}

func TestSMIDocument(t *testing.T) {
	t.Parallel()
	type document struct {
		Driver string `xml:"driver_version"`
		GPUs   []struct {
			ID       string `xml:"id,attr"`
			Name     string `xml:"product_name"`
			ECC      string `xml:"ecc_errors>volatile>dram_uncorrectable"`
			Pending  string `xml:"remapped_rows>remapped_row_pending"`
			Event    string `xml:"clocks_event_reasons>clocks_event_reason_sw_power_cap"`
			Throttle string `xml:"clocks_throttle_reasons>clocks_throttle_reason_gpu_idle"`
			Limit    string `xml:"gpu_power_readings>current_power_limit"`
			OldLimit string `xml:"power_readings>power_limit"`
			Fabric   string `xml:"fabric>state"`
			User     string `xml:"processes>process_info>process_name"`
			Instance []int  `xml:"mig_devices>mig_device>index"`
		} `xml:"gpu"`
	}
	spoilt := gpus.H100s(3)
	card := &spoilt.Cards[0]
	card.Name = `<H&"100">` // a document, whatever is in it
	card.ECC.Uncorrected, card.Remapped.Pending, card.Throttle, card.Power.Limit = 3, true, []string{"sw-power-cap"}, 350
	card.Fabric.State, card.MIGDevices = 2, []string{"1g.10gb", "1g.10gb"}
	card.Processes = []gpus.Process{{PID: 7, Name: "python3", Kind: "compute", Memory: 1 << 30}}
	spoilt.Cards[1].Unbound = true

	tests := map[string]struct {
		scenario gpus.Machine
		want     string // how many cards there are, and of the first
	}{
		"spoilt":     {spoilt, `2 550.54.15 00000000:1B:00.0 <H&"100"> 3 Yes Active - 350.00 W - In Progress python3 [0 1]`},
		"old driver": {gpus.V100s(3), `3 450.80.02 00000000:05:00.0 Tesla V100-SXM2-32GB 0 - - Active - 300.00 W - - []`},
		"consumer":   {gpus.RTX4090s(3), `3 550.54.15 00000000:21:00.0 NVIDIA GeForce RTX 4090 N/A - Not Active - 450.00 W - N/A - []`},
	}
	for name, test := range tests {
		output, _ := runSMI(t, test.scenario, "-q", "-x")
		var got document
		if err := xml.Unmarshal([]byte(output), &got); err != nil || len(got.GPUs) == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		first := got.GPUs[0]
		fields := []string{got.Driver, first.ID, first.Name, first.ECC, first.Pending, first.Event, first.Throttle, first.Limit, first.OldLimit, first.Fabric, first.User}
		for i, field := range fields {
			if field == "" {
				fields[i] = "-"
			}
		}
		line := fmt.Sprint(len(got.GPUs), " ", strings.Join(fields, " "), " ", first.Instance)
		if diff := cmp.Diff(test.want, line); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
