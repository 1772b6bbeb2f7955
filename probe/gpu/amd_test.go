// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// instinct returns a machine with two CPUs and four MI210. XGMI connects the first two GPUs. The
// machine follows two recordings: topo-mi210-xgmi-pcie and topology-parsing-mi308 of
// ROCm/k8s-device-plugin (ed76468, testdata). The devices' own files are not in the recordings and
// follow the kernel's source.
func instinct(t *testing.T) machine.Options {
	files := map[string]string{
		"/dev/kfd": "", amdModule + "/version": "6.8.5\n", "/opt/rocm/.info/version": "6.2.0-66\n", "/proc/sys/kernel/osrelease": "5.15.0-107-generic\n",
		kfdProcesses + "/4711/vram_51000": "8589934592\n", kfdProcesses + "/4711/vram_51001": "0\n", kfdProcesses + "/4711/pasid": "32769\n",
		"/proc/4711/cmdline": "python\x00train.py\x00", "/proc/4711/comm": "python\n",
	}
	for _, processor := range []string{"0", "1"} {
		files[kfdNodesDir+"/"+processor+"/properties"] = "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\nlocation_id 0\ndrm_render_minor 0\n"
		files[kfdNodesDir+"/"+processor+"/gpu_id"] = "0\n"
	}
	for i := range 4 {
		node := fmt.Sprintf("%s/%d/", kfdNodesDir, 2+i)
		bus := 0x63 + 3*i
		files[node+"gpu_id"] = fmt.Sprintf("%d\n", 51000+i)
		files[node+"properties"] = fmt.Sprintf("cpu_cores_count 0\nsimd_count 416\nmem_banks_count 1\ngfx_target_version 90010\nvendor_id 4098\ndevice_id 29711\n"+
			"location_id %d\ndomain 0\ndrm_render_minor %d\nhive_id 12609507387757274807\nunique_id %d\nnum_xcc 1\n", bus<<8, 128+i, 1801979520617338022+i)
		link := func(number, kind, to, rate int) {
			files[fmt.Sprintf("%sio_links/%d/properties", node, number)] =
				fmt.Sprintf("type %d\nversion_major 0\nnode_from %d\nnode_to %d\nweight 20\nmin_bandwidth 312\nmax_bandwidth %d\nflags 1\n", kind, 2+i, to, rate)
		}
		link(0, 2, i/2, 32000)
		if i < 2 {
			link(1, 11, 3-i, 50000)
		}
		device := fmt.Sprintf("%s/0000:%02x:00.0/", pciDevices, bus)
		for name, text := range map[string]string{
			"vendor": "0x1002", "class": "0x038000", "device": "0x740f", "numa_node": fmt.Sprint(i / 2), "local_cpulist": "0-63", "vbios_version": "113-D67301-063",
			"product_name": "AMD INSTINCT MI210", "serial_number": fmt.Sprintf("69223900%04d", i), "mem_info_vram_total": "68702699520", "mem_info_vram_used": "11452416",
			"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16", "max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16",
			"fw_version/mec_fw_version": "0x0000005c", "fw_version/vce_fw_version": "0x00000000", "fw_version/smc_fw_version": "0x00443f00",
			"ras/umc_err_count": "ue: 0\nce: 3\nde: 0", "ras/gfx_err_count": "ue: 0\nce: 1", "ras/mca_err_count": "Query currently inaccessible",
		} {
			files[device+name] = text + "\n"
		}
		files[fmt.Sprintf("/dev/dri/renderD%d", 128+i)] = ""
	}
	return probetest.Write(t, machine.Options{}, files)
}

func TestAMDCards(t *testing.T) {
	seen, err := CollectNVML(t.Context(), instinct(t))
	if err != nil || len(seen.Cards) != 4 {
		t.Fatalf("%+v, %v", seen, err)
	}
	if seen.Source != facts.SourceAMD || !seen.Asked || seen.Driver != "6.8.5" || seen.Failure != nil {
		t.Errorf("%q, asked %v, driver %q, failure %+v", seen.Source, seen.Asked, seen.Driver, seen.Failure)
	}
	first := facts.Card{
		UUID: fmt.Sprintf("GPU-%016x", 1801979520617338022), Name: "AMD INSTINCT MI210", Serial: "692239000000", VBIOS: "113-D67301-063", Target: "gfx90a",
		Firmware: map[string]string{"mec": "0x0000005c", "smc": "0x00443f00"},
		Address:  "0000:63:00.0", Minor: new(128), NUMANode: new(0), CPUs: "0-63", Memory: 68702699520, MemoryUsed: new(int64(11452416)),
		Link:      facts.PCILink{Generation: 4, MaxGeneration: 4, Width: 16, MaxWidth: 16},
		ECC:       &facts.ECC{Enabled: true, Uncorrected: new(int64(0)), Corrected: new(int64(4))},
		Processes: []facts.GPUUser{{PID: 4711, Kind: "compute", Memory: new(int64(8 << 30))}},
		NVLinks:   &facts.NVLinks{Count: 3, Down: []int{2, 3}, Speed: 400e9, RemoteKind: "gpu", Remotes: []string{"0000:66:00.0", "0000:69:00.0", "0000:6c:00.0"}},
	}
	if diff := cmp.Diff(first, seen.Cards[0]); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
	if last := seen.Cards[3]; last.Index != 3 || *last.Minor != 131 || last.NVLinks.Speed != 0 || len(last.NVLinks.Down) != 3 || len(last.Processes) != 0 || last.Processes == nil {
		t.Errorf("the last: %+v, links %+v", last, last.NVLinks)
	}
}

func TestCollectGPUOfAMD(t *testing.T) {
	o := instinct(t)
	probetest.Link(t, o, "../../../devices/x", amdModule+"/drivers/pci:amdgpu/0000:63:00.0")
	if err := os.Remove(o.At("/dev/dri/renderD131")); err != nil {
		t.Fatal(err)
	}
	got, err := CollectGPU(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{}
	for _, gpu := range got.OnBus {
		addresses = append(addresses, gpu.Address)
	}
	if diff := cmp.Diff([]string{"0000:63:00.0", "0000:66:00.0", "0000:69:00.0", "0000:6c:00.0"}, addresses); diff != "" {
		t.Errorf("on the bus (-want +got):\n%s", diff)
	}
	got.OnBus = nil
	want := &facts.GPU{
		Devices: []string{"/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD130", "/dev/dri/renderD131"}, Driver: []string{"0000:63:00.0"}, ROCm: "6.2.0-66",
		Doors: []facts.DeviceNode{
			{Path: "/dev/kfd"}, {Path: "/dev/dri/renderD128"}, {Path: "/dev/dri/renderD129"}, {Path: "/dev/dri/renderD130"},
			{Path: "/dev/dri/renderD131", Problem: "no such file or directory"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPartitions checks that a card in four partitions counts as four GPUs at one address, as in
// topology-parsing-mi308. Each GPU must have its part of the memory.
func TestPartitions(t *testing.T) {
	files := map[string]string{amdModule + "/refcnt": "1\n", "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n", pciDevices + "/0000:0a:00.0/mem_info_vram_total": "205000000000\n"}
	for i := range 4 {
		files[fmt.Sprintf("%s/%d/properties", kfdNodesDir, 2+i)] = fmt.Sprintf("simd_count 80\ngfx_target_version 90402\nlocation_id %d\ndomain 0\ndrm_render_minor %d\n", 2560+i, 128+i)
	}
	seen := amdCards(probetest.Write(t, machine.Options{}, files))
	if len(seen.Cards) != 4 || seen.Driver != "6.8.0-45-generic" {
		t.Fatalf("%+v", seen)
	}
	for i, card := range seen.Cards {
		if card.Address != "0000:0a:00.0" || *card.Minor != 128+i || card.Target != "gfx942" || card.Memory != 51250000000 || card.NVLinks != nil || card.ECC != nil {
			t.Errorf("%d: %+v", i, card)
		}
	}
}

// TestRefusedErrors covers a GPU that counts errors but does not show the counts now: it has
// refused the read. A GPU without counters has not.
func TestRefusedErrors(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/resets/ras/umc_err_count": "Query currently inaccessible\n", "/resets/ras/gfx_err_count": "Query currently inaccessible\n", "/radeon/vendor": "0x1002\n",
	})
	want := []facts.NVMLFailure{{Kind: facts.FailureOther, Call: facts.CallRAS, Text: "Query currently inaccessible"}}
	if ecc, refused := rasErrors(o.At("/resets")); ecc != nil || cmp.Diff(want, refused) != "" {
		t.Errorf("%+v, refused %+v", ecc, refused)
	}
	if ecc, refused := rasErrors(o.At("/radeon")); ecc != nil || refused != nil {
		t.Errorf("without counters: %+v, refused %+v", ecc, refused)
	}
}

// TestShowsAMD checks that a device that does not compute, or is not from AMD, does not make an AMD
// machine. A GPU without its driver does.
func TestShowsAMD(t *testing.T) {
	const card = pciDevices + "/0000:0a:00.0/"
	for name, c := range map[string]struct {
		files   map[string]string
		shows   bool
		failure string
	}{
		"nothing":             {map[string]string{"/dev/null": ""}, false, ""},
		"a board's console":   {map[string]string{card + "vendor": "0x1002\n", card + "class": "0x030000\n"}, false, ""},
		"another maker's":     {map[string]string{card + "vendor": "0x8086\n", card + "class": "0x120000\n"}, false, ""},
		"no driver":           {map[string]string{card + "vendor": "0x1002\n", card + "class": "0x120000\n"}, true, facts.FailureNoDriver},
		"none in a container": {map[string]string{card + "vendor": "0x1002\n", card + "class": "0x120000\n", amdModule + "/refcnt": "1\n"}, true, facts.FailureNotFound},
	} {
		o := probetest.Write(t, machine.Options{}, c.files)
		seen, err := CollectNVML(t.Context(), o)
		if err != nil || seen.Asked != c.shows {
			t.Errorf("%s: %+v, %v", name, seen, err)
		}
		if got := seen.Failure; (got == nil) != (c.failure == "") || got != nil && got.Kind != c.failure {
			t.Errorf("%s: failure %+v, and not %q", name, got, c.failure)
		}
	}
}

// TestProcessorsGraphics checks that a CPU's integrated graphics is not used for training, although
// the kernel lists it as a compute device.
func TestProcessorsGraphics(t *testing.T) {
	const device = pciDevices + "/0000:0a:00.0/"
	files := map[string]string{
		amdModule + "/refcnt": "1\n", device + "vendor": "0x1002\n", device + "class": "0x038000\n", device + "mem_info_vram_total": "536870912\n",
		kfdNodesDir + "/1/properties": "simd_count 16\ngfx_target_version 90012\nlocation_id 2560\ndomain 0\ndrm_render_minor 128\n",
	}
	if showsAMD(probetest.Write(t, machine.Options{}, files)) {
		t.Error("512 MiB are taken for an accelerator")
	}
	files[device+"mem_info_vram_total"] = "17163091968\n"
	if !showsAMD(probetest.Write(t, machine.Options{}, files)) {
		t.Error("16 GiB are not")
	}
}
