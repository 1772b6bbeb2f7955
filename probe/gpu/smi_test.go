// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/probetest"
)

// standIn is an nvidia-smi: a shell script whose body sees the arguments.
func standIn(t *testing.T, body string) smi {
	t.Helper()
	return smi{path: probetest.Script(t, "nvidia-smi", body), limit: 20 * time.Second}
}

// answering is a stand-in that prints a document and some tables.
func answering(t *testing.T, document string, tables map[string]string) smi {
	t.Helper()
	dir := t.TempDir()
	body := "case \"$*\" in\n"
	for arguments, text := range tables {
		path := filepath.Join(dir, strings.ReplaceAll(arguments, " ", ""))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		body += fmt.Sprintf("'%s') cat '%s';;\n", arguments, path)
	}
	document, err := filepath.Abs(filepath.Join("testdata", document))
	if err != nil {
		t.Fatal(err)
	}
	return standIn(t, body+fmt.Sprintf("'-q -x') cat '%s';;\n*) echo 'Invalid combination of input arguments.'; exit 2;;\nesac\n", document))
}

// h100Tables are those of eight GPUs behind switches, two links of the last down
// and one slow, one pair cut off.
func h100Tables() map[string]string {
	topology, reads, writes, links, errors := "\t\x1b[4mGPU0", " \tGPU0", "", "", ""
	for i := 1; i < 8; i++ {
		topology += fmt.Sprintf("\tGPU%d", i)
		reads += fmt.Sprintf("\tGPU%d", i)
	}
	topology += "\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
	reads += "\t\n"
	writes = reads
	for i := range 8 {
		topology += fmt.Sprintf("GPU%d", i)
		read, write := fmt.Sprintf(" GPU%d", i), fmt.Sprintf(" GPU%d", i)
		for j := range 8 {
			word, may, mayWrite := "NV18", "OK", "OK"
			switch {
			case i == j:
				word, may, mayWrite = " X ", "X", "X"
			case i+j == 13 && i > 5:
				word, may, mayWrite = "NV16", "CNS", "TNS"
			case i+j == 1:
				mayWrite = "DR"
			}
			topology, read, write = topology+"\t"+word, read+"\t"+may, write+"\t"+mayWrite
		}
		topology += fmt.Sprintf("\tPIX\t%d-%d,%d-%[3]d\t%d\t\tN/A\n", i/4*56, i/4*56+55, i/4*56+112, i/4)
		reads, writes = reads+read+"\t\n", writes+write+"\t\n"
		head := fmt.Sprintf("GPU %d: NVIDIA H100 80GB HBM3 (UUID: GPU-%d)\n", i, i)
		links, errors = links+head, errors+head
		for link := range 18 {
			speed := "26.562 GB/s"
			if i == 7 && link < 3 {
				speed = []string{"<inactive>", "<inactive>", "13.281 GB/s"}[link]
			}
			links += fmt.Sprintf("\t Link %d: %s\n", link, speed)
			crc := 0
			if i == 7 && link == 2 {
				crc = 912
			}
			errors += fmt.Sprintf("\t Link %d: Replay Errors: %d\n\t Link %[1]d: Recovery Errors: 0\n\t Link %[1]d: CRC Errors: %[3]d\n\n", link, crc/100, crc)
		}
	}
	return map[string]string{
		"--query-gpu=pci.bus_id,compute_cap --format=csv,noheader": "00000000:1B:00.0, 9.0\n00000000:DF:00.0, 9.0\n",
		"topo -m":     topology + "NIC0\tPIX\tPIX\tPIX\tPIX\tPIX\tPIX\tPIX\tPIX\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n",
		"topo -p2p r": reads + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n",
		"topo -p2p w": writes,
		"nvlink -s":   links,
		"nvlink -e":   errors,
	}
}

func TestAskSMI(t *testing.T) {
	got, err := answering(t, "smi-h100-550.xml", h100Tables()).ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.NVML{Source: "nvidia-smi", Asked: true, Driver: "550.54.15", CUDA: "12.4"}
	for i, bus := range []string{"1b", "43", "52", "61", "9d", "c3", "d1", "df"} {
		want.Cards = append(want.Cards, h100Card(i, "0000:"+bus+":00.0"))
		topology, peers := []string{"NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18"}, []string{"ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok"}
		switch i {
		case 0, 1:
			peers[1-i] = "disabled-by-regkey"
		case 6, 7:
			topology[13-i], peers[13-i] = "NV16", "chipset-not-supported"
		}
		topology[i], peers[i] = "X", "X"
		want.Topology, want.Peers = append(want.Topology, topology), append(want.Peers, peers)
	}
	want.Cards[0].Capability, want.Cards[7].Capability = "9.0", "9.0"
	want.Cards[2].Fabric.Degraded = []string{"route"}
	want.Cards[3].Processes = []facts.GPUUser{{PID: 41235, Name: "python3.11", Kind: "compute", Memory: new(int64(61204 << 20))}}
	want.Cards[5].ECC.Corrected, want.Cards[5].ECC.AggregateCorrected, want.Cards[5].ECC.AggregateUncorrected = new(int64(2)), new(int64(12)), new(int64(4))
	want.Cards[5].Remapped = &facts.Remapped{Uncorrected: 1, Pending: true}
	want.Cards[7].NVLinks.Down, want.Cards[7].NVLinks.Slow = []int{0, 1}, []int{2}
	want.Cards[7].NVLinks.Errors = []facts.NVLinkErrors{{Link: 2, Replays: 9, CRC: 912}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// h100Card is a GPU of smi-h100-550.xml that is well.
func h100Card(i int, address string) facts.Card {
	none := int64(0)
	return facts.Card{
		Index: i, UUID: fmt.Sprintf("GPU-0b2f5e1%d-7c44-4e0a-9d11-6a0c3f28d70%[1]d", i), Name: "NVIDIA H100 80GB HBM3", Serial: fmt.Sprintf("165262300%04d", i),
		VBIOS: "96.00.89.00.01", Address: address, Minor: new(i), NUMANode: new(i / 4), CPUs: fmt.Sprintf("%d-%d,%d-%[3]d", i/4*56, i/4*56+55, i/4*56+112),
		Memory: 81559 << 20, MemoryUsed: new(int64(4 << 20)), MemoryReserved: new(int64(551 << 20)),
		Link:        facts.PCILink{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16, Replays: &none},
		Clock:       facts.GPUClock{SM: 345, MaxSM: 1980, Memory: 2619, MaxMemory: 2619},
		Power:       facts.GPUPower{Draw: 69.42, Limit: 700, Default: 700, Max: 700},
		Temperature: new(30 + i), Throttle: []string{"gpu-idle"}, Utilization: new(0),
		Persistence: new(true), ComputeMode: "default", MIG: "disabled", MIGPending: "disabled",
		ECC:       &facts.ECC{Enabled: true, Pending: new(true), Corrected: &none, Uncorrected: &none, AggregateCorrected: &none, AggregateUncorrected: &none, SRAMExceeded: new(false)},
		Remapped:  &facts.Remapped{},
		Processes: []facts.GPUUser{},
		NVLinks:   &facts.NVLinks{Count: 18, Speed: 212_496_000_000, Counted: true},
		Fabric:    &facts.GPUFabric{State: "completed"},
	}
}

// What a table does not tell, because this nvidia-smi does not know it, is not told.
func TestAskSMIWithoutTables(t *testing.T) {
	got, err := answering(t, "smi-h100-550.xml", map[string]string{"topo -p2p r": h100Tables()["topo -p2p r"]}).ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	card := got.Cards[7]
	if len(got.Cards) != 8 || got.Failure != nil || got.Topology != nil || got.Peers != nil || card.NVLinks != nil || card.CPUs != "" || card.NUMANode != nil || card.Capability != "" {
		t.Errorf("%+v, %+v", got, card)
	}
}

func TestSMIFailures(t *testing.T) {
	tests := []struct {
		name, body string
		want       facts.NVMLFailure
		cards      []facts.Card
		library    string
	}{
		{
			"no driver", `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."; echo; exit 9`,
			facts.NVMLFailure{Kind: facts.FailureNoDriver, Code: 9, Text: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."}, nil, "",
		},
		{
			"two versions", `echo "Failed to initialize NVML: Driver/library version mismatch"; echo "NVML library version: 535.161"; exit 18`,
			facts.NVMLFailure{Kind: facts.FailureMismatch, Code: 18, Text: "Failed to initialize NVML: Driver/library version mismatch"}, nil, "535.161",
		},
		{"a container", `echo "Failed to initialize NVML: Unknown Error"; exit 255`, facts.NVMLFailure{Kind: facts.FailureUnknown, Code: 999, Text: "Failed to initialize NVML: Unknown Error"}, nil, ""},
		{"no right", `echo "Failed to initialize NVML: Insufficient Permissions" >&2; exit 4`, facts.NVMLFailure{Kind: facts.FailureNoPermission, Code: 4, Text: "Failed to initialize NVML: Insufficient Permissions"}, nil, ""},
		{"no GPU", `echo "No devices were found"; exit 6`, facts.NVMLFailure{Kind: facts.FailureNotFound, Code: 6, Text: "No devices were found"}, nil, ""},
		{
			"no library", `echo "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system."; exit 12`,
			facts.NVMLFailure{Kind: facts.FailureNoLibrary, Code: 12, Text: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system."}, nil, "",
		},
		{
			"a lost GPU by address", `echo "Unable to determine the device handle for GPU 0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"; exit 15`,
			facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "Unable to determine the device handle for GPU 0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"}, nil, "",
		},
		{
			"a lost GPU by index", `echo "Unable to determine the device handle for GPU3: 0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"; exit 15`,
			facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "Unable to determine the device handle for GPU3: 0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"},
			[]facts.Card{{Index: 3, Address: "0000:82:00.0", Failure: &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "Unable to determine the device handle for GPU3: 0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"}}}, "",
		},
		{"words of a language nobody knows", `echo "kaputt"; exit 16`, facts.NVMLFailure{Kind: facts.FailureReset, Code: 16, Text: "kaputt"}, nil, ""},
		{"a code nobody knows", `exit 77`, facts.NVMLFailure{Kind: facts.FailureOther, Code: 77, Text: "ended with exit status 77 and said nothing"}, nil, ""},
		{"a symbol", `echo "nvidia-smi: symbol lookup error: undefined symbol: nvmlInit_v9" >&2; exit 127`, facts.NVMLFailure{Kind: facts.FailureCrashed, Text: "nvidia-smi ended: nvidia-smi: symbol lookup error: undefined symbol: nvmlInit_v9"}, nil, ""},
		{"a signal", `kill -s SEGV $$`, facts.NVMLFailure{Kind: facts.FailureCrashed, Text: "nvidia-smi ended: ended with signal: segmentation fault (core dumped) and said nothing"}, nil, ""},
		{"nothing", ``, facts.NVMLFailure{Kind: facts.FailureOther, Text: "nvidia-smi -q -x gave no document, but nothing"}, nil, ""},
		{"another program", `echo usage; echo "in $LC_ALL"`, facts.NVMLFailure{Kind: facts.FailureOther, Text: "nvidia-smi -q -x gave no document, but in C"}, nil, ""},
		{"no GPU in the document", `echo "<nvidia_smi_log><driver_version>550.54.15</driver_version></nvidia_smi_log>"`, facts.NVMLFailure{Kind: facts.FailureNotFound, Code: 6, Text: "nvidia-smi shows no GPU"}, nil, ""},
		{
			"half a document", `echo "<nvidia_smi_log><driver_version>550.54.15</driver_version><gpu id='00000000:4E:00.0'><uuid>GPU-1</uuid><serial>12"`,
			facts.NVMLFailure{Kind: facts.FailureOther, Text: "the document of nvidia-smi -q -x is cut off"}, []facts.Card{{UUID: "GPU-1", Serial: "12", Address: "0000:4e:00.0"}}, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := standIn(t, tt.body).ask(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tt.cards == nil {
				tt.cards = []facts.Card{}
			}
			if tt.name == "a signal" { // whether a core is dumped is the machine's to say
				got.Failure.Text = strings.Replace(got.Failure.Text, "fault and", "fault (core dumped) and", 1)
			}
			if diff := cmp.Diff(&tt.want, got.Failure); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.cards, got.Cards); diff != "" || got.Library != tt.library {
				t.Errorf("library %q, cards (-want +got):\n%s", got.Library, diff)
			}
		})
	}
}

func TestSMIThatCannotBeRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	probetest.Program(t, path, "\x7fELF of another machine")
	got, err := askSMI(t.Context(), path)
	if err != nil || got.Failure == nil || got.Failure.Kind != facts.FailureOther || !strings.Contains(got.Failure.Text, "exec format error") {
		t.Errorf("%+v, %v", got.Failure, err)
	}
}

// How tables number the GPUs that are left is not known: they are not read.
func TestSMIOfHiddenGPUsHasNoTables(t *testing.T) {
	document := "Unable to determine the device handle for GPU0: 0000:31:00.0: Insufficient Permissions\n" +
		`<nvidia_smi_log><driver_version>570.86.15</driver_version><gpu id="00000000:4B:00.0"/><gpu id="00000000:CA:00.0"/></nvidia_smi_log>`
	const topology = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X "
	seen, err := standIn(t, "case \"$*\" in\n'-q -x') echo '"+document+"';;\n'topo -m') echo '"+topology+"';;\n*) exit 2;;\nesac\n").ask(t.Context())
	if err != nil || seen.Failure != nil || seen.Hidden != 1 || len(seen.Cards) != 2 || seen.Topology != nil {
		t.Errorf("%+v, %v; want two GPUs and no tables", seen, err)
	}
}

// A document that came whole counts, whatever the driver does with nvidia-smi after
// it, and of one that hangs what came before is kept.
func TestSMIThatHangs(t *testing.T) {
	const half = `<nvidia_smi_log><driver_version>550.54.15</driver_version><gpu id="00000000:4E:00.0"><uuid>GPU-1</uuid></gpu>`
	tests := []struct {
		name, said string
		want       string
		cards      int
	}{
		{"silent", "", facts.FailureHung, 0},
		{"in the middle", half, facts.FailureHung, 1},
		{"at its end", half + "</nvidia_smi_log>", "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hanging := standIn(t, "[ \"$1\" = -q ] && echo '"+tt.said+"'\nexec sleep 300\n")
			hanging.limit = 500 * time.Millisecond
			got, err := hanging.ask(t.Context())
			if err != nil || len(got.Cards) != tt.cards {
				t.Fatalf("%+v, %v", got, err)
			}
			kind := ""
			if got.Failure != nil {
				kind = got.Failure.Kind
			}
			if kind != tt.want {
				t.Errorf("%+v, want %q", got.Failure, tt.want)
			}
		})
	}
}

// That we were interrupted, or had no time to wait, says nothing of the driver.
func TestSMIWithoutTime(t *testing.T) {
	slow := standIn(t, "exec sleep 300\n")
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	if got, err := slow.ask(interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %+v, %v", got, err)
	}
	short, stop := context.WithTimeout(t.Context(), 2*nvmlEnding+100*time.Millisecond)
	defer stop()
	if got, err := slow.ask(short); err == nil || !strings.Contains(err.Error(), "too little time") {
		t.Errorf("short of time: %+v, %v", got, err)
	}
}
