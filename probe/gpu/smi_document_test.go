// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// readDocument is a file of testdata, as facts.
func readDocument(t *testing.T, name string) *facts.NVML {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	seen := &facts.NVML{}
	readSMI(string(text), seen)
	return seen
}

// Driver 390 on two P100: no CUDA version, errors by bits, retired pages, and
// reasons to throttle.
func TestSMIOfAnOldDriver(t *testing.T) {
	card := func(i int, digit, bus string) facts.Card {
		return facts.Card{
			Index: i, UUID: "GPU-5d3b3a8" + digit + "-1f1c-66ce-8d75-cd2b7d4c9e0" + digit, Name: "Tesla P100-SXM2-16GB", Serial: "032211709000" + digit, VBIOS: "86.00.4D.00.01",
			Address: "0000:" + bus + ":00.0", Minor: &i, Memory: 16280 << 20, MemoryUsed: new(int64(10 << 20)),
			Link:        facts.PCILink{Generation: 1, MaxGeneration: 3, Width: 8, MaxWidth: 16, Replays: new(int64(7))},
			Clock:       facts.GPUClock{SM: 405, MaxSM: 1480, Memory: 715, MaxMemory: 715, AppSM: 810},
			Power:       facts.GPUPower{Draw: 31.46, Limit: 240, Default: 300, Max: 300},
			Temperature: new(84), SlowdownAt: new(82), Throttle: []string{"applications-clocks", "sw-power-cap", "hw-slowdown", "sw-thermal"}, Utilization: new(3),
			Persistence: new(false), ComputeMode: "exclusive-process",
			ECC:       &facts.ECC{Enabled: true, Pending: new(false), Corrected: new(int64(4)), Uncorrected: new(int64(1)), AggregateCorrected: new(int64(90)), AggregateUncorrected: new(int64(2))},
			Retired:   &facts.Retired{SingleBit: 1, DoubleBit: 2, Pending: true},
			Processes: []facts.GPUUser{},
		}
	}
	want := &facts.NVML{Driver: "390.116", Cards: []facts.Card{card(0, "0", "06"), card(1, "1", "07")}}
	if diff := cmp.Diff(want, readDocument(t, "smi-p100-390.xml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A GeForce tells little, and somebody's screen is on it.
func TestSMIOfAGeForce(t *testing.T) {
	want := &facts.NVML{Driver: "590.44.01", CUDA: "13.1", Cards: []facts.Card{{
		UUID: "GPU-c1a7e2d4-93b0-5f1e-a6f2-0d9b8e7c6a51", Name: "NVIDIA GeForce RTX 4090", VBIOS: "95.02.18.80.5F",
		Address: "0000:01:00.0", Minor: new(0), Memory: 24564 << 20, MemoryUsed: new(int64(613 << 20)), MemoryReserved: new(int64(472 << 20)),
		Link:        facts.PCILink{Generation: 1, MaxGeneration: 4, Width: 16, MaxWidth: 16, Replays: new(int64(0))},
		Clock:       facts.GPUClock{SM: 210, MaxSM: 3120, Memory: 405, MaxMemory: 10501},
		Power:       facts.GPUPower{Draw: 22.87, Limit: 450, Default: 450, Max: 600},
		Temperature: new(41), Throttle: []string{"gpu-idle"}, Persistence: new(false), ComputeMode: "default",
		Processes: []facts.GPUUser{
			{PID: 1944, Name: "Xorg", Kind: "graphics", Memory: new(int64(412 << 20))},
			{PID: 2210, Kind: "compute"}, // its name looks like a part of the document
			{PID: 2377, Kind: "mps"},
		},
	}}}
	if diff := cmp.Diff(want, readDocument(t, "smi-geforce-590.xml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSMIOfMIG(t *testing.T) {
	seen := readDocument(t, "smi-mig-525.xml")
	if len(seen.Cards) != 1 {
		t.Fatalf("%+v", seen)
	}
	readInstances("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-7e0d5c42)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n  MIG 1g.10gb+me  Device  1: (UUID: MIG-2)\nGPU 1: other\n  MIG 7g.80gb     Device  0: (UUID: MIG-3)\n", seen.Cards)
	type told struct {
		MIG, Pending, Mode string
		Devices            []string
		ECC                facts.ECC
		Remapped           facts.Remapped
		Throttle           []string
		AppSM              int
	}
	card := seen.Cards[0]
	want := told{
		"enabled", "disabled", "prohibited", []string{"1g.10gb", "1g.10gb+me"},
		facts.ECC{Enabled: true, Pending: new(true), Corrected: new(int64(0)), Uncorrected: new(int64(3)), AggregateCorrected: new(int64(5)), AggregateUncorrected: new(int64(3))},
		facts.Remapped{Uncorrected: 9, Failed: true}, []string{}, 0,
	}
	if diff := cmp.Diff(want, told{card.MIG, card.MIGPending, card.ComputeMode, card.MIGDevices, *card.ECC, *card.Remapped, card.Throttle, card.Clock.AppSM}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of four GPUs one has no handle, one is lost since, and one has a damaged infoROM.
func TestSMIOfLostGPUs(t *testing.T) {
	type sick struct {
		Index   int
		Address string
		Minor   *int
		Memory  int64
		Failure *facts.NVMLFailure
		Refused []facts.NVMLFailure
	}
	var got []sick
	for _, card := range readDocument(t, "smi-lost-570.xml").Cards {
		got = append(got, sick{card.Index, card.Address, card.Minor, card.Memory, card.Failure, card.Refused})
	}
	want := []sick{
		{0, "0000:31:00.0", new(0), 23034 << 20, nil, nil},
		{1, "0000:4b:00.0", nil, 0, &facts.NVMLFailure{Kind: facts.FailureUnknown, Code: 999, Text: "Unable to determine the device handle for GPU1: 0000:4B:00.0: Unknown Error"}, nil},
		{2, "0000:ca:00.0", new(2), 0, &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "persistence_mode: GPU is lost"}, nil},
		{3, "0000:e3:00.0", new(3), 23034 << 20, nil, []facts.NVMLFailure{{Kind: facts.FailureOther, Code: 14, Text: "infoROM is corrupted at gpu 0000:E3:00.0"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A silent GPU stands where NVML counts it, however its line names it.
func TestSilentGPUs(t *testing.T) {
	const document = `<nvidia_smi_log><driver_version>1</driver_version><gpu id="00000000:31:00.0"/><gpu id="00000000:CA:00.0"/></nvidia_smi_log>`
	tests := []struct{ line, want string }{
		{"GPU0000:4B:00.0: Unknown Error", "0000:31:00.0 0000:4b:00.0! 0000:ca:00.0"},
		{"GPU 0000:E0:00.0: GPU is lost.  Reboot the system to recover this GPU", "0000:31:00.0 0000:ca:00.0 0000:e0:00.0!"},
		{"gpu 0000:01:00.0: Unable to communicate with GPU because it is insufficiently powered.", "0000:01:00.0! 0000:31:00.0 0000:ca:00.0"},
		{"GPU1: Unknown Error", "0000:31:00.0 ! 0000:ca:00.0"},
		{"GPU1: 0000:4B:00.0: Unknown Error", "0000:31:00.0 0000:4b:00.0! 0000:ca:00.0"},
		{"GPU9: Unknown Error", "0000:31:00.0 0000:ca:00.0 !"},
	}
	for _, tt := range tests {
		seen := &facts.NVML{}
		readSMI("Unable to determine the device handle for "+tt.line+"\n"+document, seen)
		var got []string
		for i, card := range seen.Cards {
			if card.Index != i {
				t.Errorf("%s: GPU %d has index %d", tt.line, i, card.Index)
			}
			mark := ""
			if card.Failure != nil {
				mark = "!"
			}
			got = append(got, card.Address+mark)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, strings.Join(got, " "), tt.want)
		}
	}
}

// A GPU that is not shown to us keeps its number, and is no trouble.
func TestSMIOfHiddenGPUs(t *testing.T) {
	seen := &facts.NVML{}
	readSMI("Unable to determine the device handle for GPU0: 0000:31:00.0: Insufficient Permissions\n"+
		"Unable to determine the device handle for GPU2: 0000:CA:00.0: Insufficient Permissions\n"+
		`<nvidia_smi_log><driver_version>570.86.15</driver_version><gpu id="00000000:4B:00.0"/></nvidia_smi_log>`, seen)
	want := &facts.NVML{Driver: "570.86.15", Hidden: 2, Cards: []facts.Card{{Index: 1, Address: "0000:4b:00.0"}}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	none := &facts.NVML{}
	around := readSMI("Unable to determine the device handle for GPU0: 0000:31:00.0: Insufficient Permissions\n", none)
	if failure := smiFailure(smiAnswer{ended: true}, around, none); failure == nil || failure.Kind != facts.FailureNoPermission || none.Hidden != 1 {
		t.Errorf("the only one hidden: %d, %+v", none.Hidden, failure)
	}
}

func TestSMIRecovery(t *testing.T) {
	for text, want := range map[string]string{
		"None": "none", "Reset": "reset", "Reboot": "reboot", "Drain P2P": "drain", "Drain and Reset": "drain-and-reset",
		"Recover IMEX Domain": "recover-imex", "Bus Reset": "bus-reset", "System Reboot": "system-reboot", "Rest": "other", "N/A": "", "Unknown Error": "",
	} {
		document := `<nvidia_smi_log><gpu id="00000000:4B:00.0"><gpu_recovery_action>` + text + `</gpu_recovery_action></gpu></nvidia_smi_log>`
		seen := &facts.NVML{}
		if readSMI(document, seen); len(seen.Cards) != 1 || seen.Cards[0].Recovery != want {
			t.Errorf("%s: %+v, want %q", text, seen.Cards, want)
		}
	}
}

// What a process calls itself, and how a GPU fares in its fabric, is not how the
// GPU is; nor is a fan that does not tell.
func TestSMISickness(t *testing.T) {
	for document, want := range map[string]string{
		"<processes><process_info><process_name>GPU is lost</process_name></process_info></processes><fabric><status>Unknown Error</status></fabric>": "",
		"<pci><replay_counter>N/A</replay_counter></pci><serial>Requested functionality has been deprecated</serial>":                                 "",
		"<product_name>GPU is lost and found</product_name>":                                                                                          "",
		"<temperature><gpu_temp>[Unknown Error]</gpu_temp></temperature>":                                                                             "refused 999 gpu_temp: Unknown Error",
		"<uuid>GPU-1</uuid><fan_speed>ERR!</fan_speed>":                                                                                               "refused 999 fan_speed: ERR!",
		"<utilization><gpu_util>GPU requires reset</gpu_util></utilization><serial>GPU is lost</serial><minor>ERR!</minor>":                           "16 gpu_util: GPU requires reset, refused 999 minor: ERR!",
		strings.Repeat("<a>ERR!</a>", 9) + "<b>GPU is lost</b>":                                                                                       "15 b: GPU is lost" + strings.Repeat(", refused 999 a: ERR!", 8),
	} {
		var said []string
		failure, refused := parseElements("<gpu>" + document + "</gpu>").failures()
		if failure != nil {
			said = append(said, fmt.Sprint(failure.Code, " ", failure.Text))
		}
		for _, one := range refused {
			said = append(said, fmt.Sprint("refused ", one.Code, " ", one.Text))
		}
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}

func TestSMITold(t *testing.T) {
	for text, want := range map[string]string{
		"Default": "Default", " 12 ": "12", "": "", "N/A": "", "[N/A]": "", "Not Supported": "", "[Not Supported]": "", "Unknown Error": "", "GPU is lost": "",
		"Requested functionality has been deprecated": "", "Insufficient Permissions": "", "[Not Found]": "",
	} {
		if got := parseElements("<gpu><a><b>1</b></a><c>"+text+"</c></gpu>").value("d", "a", "c"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Set are clocks for applications that differ from how the GPU comes, which is at
// its highest where it does not say.
func TestSMIClocksForApplications(t *testing.T) {
	clocks := func(name, sm string) string {
		return "<" + name + "><graphics_clock>" + sm + "</graphics_clock></" + name + ">"
	}
	for _, tt := range []struct {
		set, usual string
		want       int
	}{{"1410 MHz", "N/A", 0}, {"1095 MHz", "N/A", 1095}, {"1095 MHz", "1095 MHz", 0}, {"1410 MHz", "1095 MHz", 1410}, {"N/A", "1095 MHz", 0}} {
		gpu := parseElements("<gpu>" + clocks("applications_clocks", tt.set) + clocks("default_applications_clocks", tt.usual) + clocks("max_clocks", "1410 MHz") + "</gpu>")
		if got := smiClock(gpu).AppSM; got != tt.want {
			t.Errorf("%s, usually %s: %d, want %d", tt.set, tt.usual, got, tt.want)
		}
	}
}

func TestSMIFabric(t *testing.T) {
	const cluster = "<clusterUuid>5C2F1A90-0000-4E11-8A10-3F0D6B7C8E21</clusterUuid><cliqueId>32766</cliqueId>"
	for part, want := range map[string]*facts.GPUFabric{
		"": nil,
		"<fabric><state>N/A</state><status>N/A</status></fabric>":                   nil,
		"<fabric><state>Not Supported</state><status>N/A</status></fabric>":         {State: "not-supported"},
		"<fabric><state>Not Started</state><status>Unknown Error</status></fabric>": {State: "not-started"},
		"<fabric><state>In Progress</state><status>N/A</status></fabric>":           {State: "in-progress"},
		"<fabric><state>Completed</state><status>Unknown Error</status></fabric>":   {State: "completed", Status: "Unknown Error"},
		"<fabric><state>Completed</state><status>Success</status>" + cluster + "</fabric>": {
			State: "completed", Cluster: "5c2f1a90-0000-4e11-8a10-3f0d6b7c8e21", Clique: 32766,
		},
		"<fabric><state>Completed</state><status>Success</status><health><bandwidth>Degraded</bandwidth><route_recovery_in_progress>True</route_recovery_in_progress>" +
			"<route_unhealthy>N/A</route_unhealthy><access_timeout_recovery>True</access_timeout_recovery><incorrect_configuration>Insufficient NVLinks</incorrect_configuration></health></fabric>": {
			State: "completed", Degraded: []string{"bandwidth", "route-recovery", "access-timeout", "configuration"},
		},
		"<fabric><state>Completed</state><status>Success</status><health><bandwidth>Full</bandwidth><route_unhealthy>False</route_unhealthy><incorrect_configuration>None</incorrect_configuration></health></fabric>": {State: "completed"},
	} {
		if diff := cmp.Diff(want, smiFabric(parseElements("<gpu>"+part+"</gpu>"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", part, diff)
		}
	}
}

// No process is another thing than processes that are not told.
func TestSMIProcesses(t *testing.T) {
	for part, told := range map[string]bool{"": false, "<processes>N/A</processes>": false, "<processes>GPU is lost</processes>": false, "<processes>\n\t</processes>": true, "<processes/>": true} {
		if got := smiProcesses(parseElements("<gpu>" + part + "</gpu>")); len(got) > 0 || (got != nil) != told {
			t.Errorf("%q: %+v", part, got)
		}
	}
}

func TestBusAddress(t *testing.T) {
	for id, want := range map[string]string{
		"00000000:4E:00.0": "0000:4e:00.0", "0000:4E:00.0": "0000:4e:00.0", "00010000:01:00.0": "10000:01:00.0", "0008C001:00:00.0": "8c001:00:00.0", "0000:4E:00": "", "N/A": "", "": "",
	} {
		if got := busAddress(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]float64{"81559 MiB": 81559, "700.00 W": 700, "16x": 16, "-5 C": -5, "0 %": 0, "12": 12, "4000 KB/s": 4000} {
		part := parseElements("<a><b>" + text + "</b></a>")
		if got, ok := part.number("b"); !ok || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "N/A", "[N/A]", "ERR!", "Unknown Error", "12 34", "1e9", "0x10", "9999999999999999999999 MiB"} {
		part := parseElements("<a><b>" + text + "</b></a>")
		if got, ok := part.number("b"); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A row may have one tab more than its head, and no processors.
func TestTopologyRows(t *testing.T) {
	cards := make([]facts.Card, 3)
	got := readTopology("\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"+
		"GPU0\t X \tSOC\tPHB\t0-31\t\t1\t\tN/A\nGPU1\tSYS\t X \tweird\todd\t0\t\tN/A\nGPU9\tSYS\tSYS\tSYS\t0-7\t3\n", cards)
	if diff := cmp.Diff([][]string{{"X", "SYS", "PHB"}, {"SYS", "X", ""}, {"", "", "X"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []facts.Card{{CPUs: "0-31", NUMANode: new(1)}, {NUMANode: new(0)}, {}}
	if diff := cmp.Diff(want, cards); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
}

// FuzzSMI: whatever nvidia-smi prints, it is read to an end, and what of it goes
// into a report is text.
func FuzzSMI(f *testing.F) {
	// Small ones, which the fuzzer can make smaller in time.
	for _, text := range []string{
		"Unable to determine the device handle for GPU1: 0000:4B:00.0: Unknown Error\n<nvidia_smi_log><gpu id='00000000:31:00.0'></gpu></nvidia_smi_log>",
		"<nvidia_smi_log><gpu><ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu>",
		"<nvidia_smi_log><gpu><clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle></clocks_event_reasons></gpu>",
		"<nvidia_smi_log><gpu><fabric><state>Completed</state><status>Success</status></fabric><serial>GPU is lost</serial></gpu></nvidia_smi_log>",
		"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-55\t0\n", " \tGPU0\tGPU1\n GPU0\tX\tCNS\n",
		"GPU 0: H100\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n", "GPU 0: H100\n\t Link 0: CRC Errors: 3\n", "GPU 0: A100\n  MIG 1g.10gb  Device 0:\n",
	} {
		f.Add(text)
	}
	f.Add("<nvidia_smi_log><gpu><processes><process_info><process_name></gpu><gpu></nvidia_smi_log>")
	f.Fuzz(func(t *testing.T, text string) {
		seen := &facts.NVML{}
		said := smiAnswer{stdout: text, ended: true}
		if failure := smiFailure(said, readSMI(text, seen), seen); failure != nil && (failure.Kind == "" || !utf8.ValidString(failure.Text)) {
			t.Errorf("%+v", failure)
		}
		if len(seen.Cards) == 0 {
			seen.Cards = make([]facts.Card, 2)
		}
		readCapabilities(text, seen.Cards)
		for _, matrix := range [][][]string{readTopology(text, seen.Cards), mergeDirections(readPeers(text, len(seen.Cards)), readPeers(text, len(seen.Cards)))} {
			if matrix != nil && len(matrix) != len(seen.Cards) {
				t.Errorf("%d rows for %d GPUs", len(matrix), len(seen.Cards))
			}
		}
		readLinks(text, seen.Cards)
		readLinkErrors(text, seen.Cards)
		readInstances(text, seen.Cards)
	})
}
