// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestCollectGPU(t *testing.T) {
	none := facts.GPU{Devices: []string{}}
	tests := []struct {
		name  string
		files []string
		want  facts.GPU
	}{
		{"none", []string{"/dev/null", "/dev/nvidia.txt"}, none},
		{"Intel's and Huawei's", []string{"/dev/accel/accel0", "/dev/accel/accel11", "/dev/accel/accel_controlD0", "/dev/davinci1", "/dev/davinci_manager"},
			facts.GPU{Devices: []string{}, Others: []string{"/dev/accel/accel0", "/dev/accel/accel11", "/dev/davinci1"}}},
		{"AMD's driver without a door", []string{"/sys/class/kfd/kfd/topology/nodes/1/properties"},
			facts.GPU{Devices: []string{}, Doors: []facts.DeviceNode{{Path: "/dev/kfd", Problem: "no such file or directory"}}}},
		{"another maker's graphics", []string{"/sys/bus/pci/devices/0000:00:02.0/vendor"}, facts.GPU{Devices: []string{}, OnBus: []facts.PCIGPU{}}},
		{"a container", []string{
			"/dev/nvidia10", "/dev/nvidia2", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-modeset",
			"/proc/driver/nvidia/gpus/0000:4e:00.0/information", "/proc/driver/nvidia/gpus/0000:0f:00.0/information",
		}, facts.GPU{
			Devices: []string{"/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia10"}, Driver: []string{"0000:0f:00.0", "0000:4e:00.0"},
			Doors:   []facts.DeviceNode{{Path: "/dev/nvidia-uvm"}, {Path: "/dev/nvidiactl"}, {Path: "/dev/nvidia0"}, {Path: "/dev/nvidia2"}, {Path: "/dev/nvidia10"}},
			Libcuda: []facts.DriverLibrary{}, IMEX: noIMEX, SwitchDoors: []string{}, XidsUnread: "no such file or directory",
		}},
		{"Windows", []string{"/dev/dxg"}, facts.GPU{
			Devices: []string{}, Others: []string{"/dev/dxg"}, Doors: []facts.DeviceNode{{Path: "/dev/dxg"}}, Libcuda: []facts.DriverLibrary{}, IMEX: noIMEX, SwitchDoors: []string{}, XidsUnread: "no such file or directory",
		}},
	}
	t.Setenv("LD_LIBRARY_PATH", "")
	t.Setenv("PATH", "")
	for _, tt := range tests {
		files := map[string]string{}
		for _, file := range tt.files {
			files[file] = "simd_count 1\n"
		}
		got, err := CollectGPU(t.Context(), probetest.Write(t, machine.Options{}, files))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestAscendRelease checks that the Ascend driver is found in the directory chosen at installation.
// In a container it must be found in the default directory.
func TestAscendRelease(t *testing.T) {
	const release = "Version=24.1.rc2\nascendhal_version=7.35.23\nInnerversion=V100R001C18SPC001B233\n"
	for _, files := range []map[string]string{
		{"/usr/local/Ascend/driver/version.info": release},
		{"/etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/npu\n", "/opt/npu/driver/version.info": release, "/usr/local/Ascend/driver/version.info": "Version=1.0\n"},
	} {
		if got := ascendRelease(probetest.Write(t, machine.Options{}, files)); got != "24.1.rc2" {
			t.Errorf("%q of %v", got, files)
		}
	}
	if got := ascendRelease(probetest.Write(t, machine.Options{}, map[string]string{"/etc/hosts": ""})); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// hgx returns the machine of gpu-hgx.txtar, with no programs other than its own.
func hgx(t *testing.T) machine.Options {
	t.Helper()
	o := probetest.Machine(t, "gpu-hgx")
	for _, dir := range []string{"/run/systemd/system", "/usr/bin"} {
		if err := os.MkdirAll(o.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probetest.Program(t, o.At("/usr/bin/nv-fabricmanager"), "#!/bin/sh\n[ \"$*\" = --version ] && echo 'Fabric Manager version is : 550.54.15'\n")
	probetest.Program(t, o.At("/usr/bin/systemctl"), "#!/bin/sh\n[ \"$*\" = 'show -p ActiveState nvidia-fabricmanager' ] && echo ActiveState=activating\n")
	probetest.Write(t, o, map[string]string{modprobeHelper: ""})
	if err := os.Chmod(o.At(modprobeHelper), os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", o.At("/usr/bin"))
	t.Setenv("LD_LIBRARY_PATH", "/opt/empty:/usr/local/cuda-12.6/compat:/opt/wsl")
	for bridge, access := range map[string]uint16{"0000:3a:01.0": 0x1d, "0000:4b:00.0": 0, "0000:4c:01.0": 0x1d, "0000:4c:02.0": 0x11, "0000:4c:03.0": 0x08} {
		probetest.Write(t, o, map[string]string{pciDevices + "/" + bridge + "/config": configSpace(access)})
	}
	return o
}

func TestCollectGPUOfHGX(t *testing.T) {
	got, err := CollectGPU(t.Context(), hgx(t))
	if err != nil {
		t.Fatal(err)
	}
	library := func(path, version, from string, compat bool) facts.DriverLibrary {
		return facts.DriverLibrary{Path: path, Version: version, From: from, Compat: compat, Problem: "0 bytes"}
	}
	want := &facts.GPU{
		Devices: []string{"/dev/nvidia0", "/dev/nvidia1"}, Driver: []string{"0000:4e:00.0", "0000:50:00.0"},
		OnBus: []facts.PCIGPU{
			{Address: "0000:4e:00.0", Device: "0x2330", Driver: "nvidia", Path: []string{"pci0000:3a", "0000:3a:01.0", "0000:4b:00.0", "0000:4c:01.0", "0000:4e:00.0"}},
			{Address: "0000:50:00.0", Device: "0x2330", Driver: "vfio-pci", NUMANode: -1, Path: []string{"pci0000:3a", "0000:3a:01.0", "0000:4b:00.0", "0000:4c:02.0", "0000:50:00.0"}},
			{Address: "0000:9d:00.0", Device: "0x2684", NUMANode: 1, Path: []string{"pci0000:9c", "0000:9c:01.0", "0000:9d:00.0"}},
		},
		NVSwitches: 2, SwitchDoors: []string{}, Module: "550.54.15", OpenModule: true, Modules: []string{"nvidia", "nvidia_peermem"},
		Modprobe: os.Geteuid() == 0, // the test's user owns the file
		Doors:    []facts.DeviceNode{{Path: "/dev/nvidia-uvm", Problem: "no such file or directory"}, {Path: "/dev/nvidiactl"}, {Path: "/dev/nvidia0"}, {Path: "/dev/nvidia1"}},
		Libcuda: []facts.DriverLibrary{
			library("/usr/local/cuda-12.6/compat/libcuda.so.1", "560.35.05", "LD_LIBRARY_PATH", true),
			library("/opt/wsl/libcuda.so.1", "", "LD_LIBRARY_PATH", false),
			library("/usr/lib64/libcuda.so.1", "550.54.15", "default", false),
		},
		FabricManager: &facts.FabricManager{Installed: true, Version: "550.54.15", State: "activating", Running: true},
		IMEX:          noIMEX,
		IOMMU:         "passthrough", Redirecting: []string{"0000:4c:01.0", "0000:4c:03.0"},
		Xids: []facts.Xid{
			{Code: 13, Address: "0000:4e:00", Age: 82800, Text: "pid=2131, name=python, Graphics Exception: ESR 0x50c730=0x9"},
			{Code: 79, Address: "0000:50:00", Age: 3600, Text: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
		},
		SXids: []facts.Xid{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestShowsNVIDIA(t *testing.T) {
	const card, sound = pciDevices + "/0000:01:00.0/", pciDevices + "/0000:01:00.1/"
	tests := []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"nothing", map[string]string{"/dev/null": "", "/proc/version": ""}, false},
		{"a GPU's node", map[string]string{"/dev/nvidia3": ""}, true},
		{"the driver's node", map[string]string{"/dev/nvidiactl": ""}, true},
		{"the driver's directory", map[string]string{"/proc/driver/nvidia/version": ""}, true},
		{"WSL 2", map[string]string{"/dev/dxg": ""}, true},
		{"a GPU that no driver holds", map[string]string{card + "vendor": "0x10de\n", card + "class": "0x030200\n"}, true},
		{"the sound of a card whose GPU was given away", map[string]string{sound + "vendor": "0x10de\n", sound + "class": "0x040300\n"}, false},
		{"another maker's GPU", map[string]string{card + "vendor": "0x1002\n", card + "class": "0x030000\n"}, false},
	}
	for _, tt := range tests {
		if got := showsNVIDIA(probetest.Write(t, machine.Options{}, tt.files)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestDriverWithoutGPUs checks that a driver without GPUs is reported differently from no driver.
func TestDriverWithoutGPUs(t *testing.T) {
	o := machine.Options{Root: t.TempDir()}
	if err := os.MkdirAll(o.At("/proc/driver/nvidia/gpus"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := CollectGPU(t.Context(), o); err != nil || got.Driver == nil || len(got.Driver) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestKFDBesideNVIDIA checks that AMD's GPUs are listed as others on a machine with NVIDIA GPUs.
// CPUs in AMD's topology must not count. Neither must a GPU that a container was not given, whose
// properties cannot be read.
func TestKFDBesideNVIDIA(t *testing.T) {
	const nodes = "/sys/class/kfd/kfd/topology/nodes/"
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/dev/kfd":                 "",
		"/dev/nvidia0":             "",
		nodes + "0/properties":     "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n",
		nodes + "10/properties":    "cpu_cores_count 0\nsimd_count 440\n",
		nodes + "2/properties":     "cpu_cores_count 0\nsimd_count 440\nlds_size_in_kb 64\n",
		nodes + "3/properties":     "",
		nodes + "4/mem_banks/none": "",
	})
	got, err := CollectGPU(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/dev/kfd node 2", "/dev/kfd node 10"}, got.Others); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
