// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// driverLook prints everything that a node shows of its GPUs, read in the same way as other
// programs. For a missing item it prints no line or 0.
const driverLook = `
ls /dev | grep nvidia | tr '\n' ' '; echo
for door in /dev/nvidiactl /dev/nvidia-uvm; do [ -c $door ] && : <>$door && echo "$door opens"; done
head -n1 /proc/driver/nvidia/version; ls /proc/driver/nvidia/gpus | wc -l
cat /sys/module/nvidia/version; ls /sys/module | grep -c nvidia
grep -l 0x10de /sys/bus/pci/devices/*/vendor | wc -l
bus=/sys/bus/pci/devices/0000:43:00.0
cat $bus/device $bus/class $bus/numa_node; readlink -f $bus $bus/driver
python3 - <<'python'
import ctypes
nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
print("NVML", nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
python
readlink /usr/lib/*/libcuda.so.1
nv-fabricmanager --version
cat /proc/[0-9]*/comm | grep nv-fabric
ls /sys/class/net; cat /sys/class/net/eth0/mtu; df --output=fstype /dev/shm /dev/pts | tail -n 2`

const eightH100 = `nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidia2 nvidia3 nvidia4 nvidia5 nvidia6 nvidia7 nvidiactl 
/dev/nvidiactl opens
/dev/nvidia-uvm opens
NVRM version: NVIDIA UNIX Open Kernel Module for MACHINE  550.54.15  Release Build  (dvs-builder@U16)  Tue Mar  5 22:15:33 UTC 2024
8
550.54.15
3
12
0x2330
0x030200
0
/sys/devices/pci0000:42/0000:42:01.0/0000:43:00.0
/sys/bus/pci/drivers/nvidia
NVML 0 0 8
libcuda.so.550.54.15
Fabric Manager version is : 550.54.15
nv-fabricmanage
eth0
lo
1500
tmpfs
devpts
`

// scenario returns a new machine of the scenario with the given name, which must exist.
func scenario(name string) gpus.Machine {
	at := slices.IndexFunc(gpus.Scenarios, func(s gpus.Scenario) bool { return s.Name == name })
	return gpus.Scenarios[at].GPUs()
}

func TestSetDriver(t *testing.T) {
	c := raise(t, 2)
	w1, w2 := c.Nodes[0], c.Nodes[1]
	look := func(n *testhosts.Node) string {
		machine := strings.TrimSpace(onHead(t, c, "uname -m"))
		return strings.ReplaceAll(onHead(t, c, "ssh "+n.Name+" <<'look' 2>/dev/null\n"+driverLook+"\nlook"), machine, "MACHINE")
	}
	bare := look(w1)
	set := func(scenario gpus.Machine) testhosts.Undo {
		t.Helper()
		undo, err := w1.SetDriver(scenario)
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	expect := func(want string) {
		t.Helper()
		if diff := cmp.Diff(want, look(w1)); diff != "" {
			t.Error(diff)
		}
	}

	toBare := set(gpus.H100s(8))
	expect(eightH100)
	if diff := cmp.Diff(bare, look(w2)); diff != "" {
		t.Errorf("the other node: %s", diff)
	}
	undo, err := w2.SetDriver(scenario("gpu-acs"))
	if err != nil {
		t.Fatal(err)
	}
	if kind, err := w2.Run(t.Context(), "cat", "/sys/bus/pci/devices/0000:14:00.0/iommu_group/type"); kind != "DMA-FQ\n" {
		t.Errorf("the cards' IOMMU: %q, %v", kind, err)
	}
	if control, err := w2.Run(t.Context(), "od", "-An", "-tx1", "-j256", "-N8", "/sys/bus/pci/devices/0000:12:00.0/config"); control != " 0d 00 01 00 00 00 1d 00\n" {
		t.Errorf("access control: %q, %v", control, err)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	// A second SetDriver replaces the first, and its Undo restores the first.
	toEight := set(scenario("driver-mismatch"))
	if got := look(w1); !strings.Contains(got, "NVML 18 1 0\n") || !strings.Contains(got, "\nlibcuda.so.550.90.07\n") {
		t.Errorf("a mismatch shows as %s", got)
	}
	if err := toEight(); err != nil {
		t.Fatal(err)
	}
	expect(eightH100)
	if _, err := w1.Kill(); err != nil { // this also ends the fabric manager
		t.Fatal(err)
	}
	if _, err := w1.Run(t.Context(), "/usr/sbin/sshd", "-E", "/var/log/sshd.log"); err != nil {
		t.Fatal(err)
	}
	if err := toBare(); err != nil {
		t.Fatal(err)
	}
	expect(bare)
}

// TestScenariosLeaveNothing checks that every scenario can be set, and that Undo leaves nothing
// behind.
func TestScenariosLeaveNothing(t *testing.T) {
	w1 := raise(t, 1).Nodes[0]
	// names prints the names of the node's own processes: all nodes and this machine share one
	// /proc.
	const names = `for p in /proc/[0-9]*; do [ "$(readlink $p/ns/net)" = "$(readlink /proc/self/ns/net)" ] && cat $p/comm; done 2>/dev/null`
	look := func() string {
		t.Helper()
		seen, err := w1.Run(t.Context(), "/bin/sh", "-c", "cat /proc/1/mountinfo | cut -d' ' -f4-; ls /dev /usr/bin /sys/devices /sys/module /proc/driver /run /etc; { "+names+"; } | grep -c -e fabric -e sleep")
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	// The first process of a machine sleeps when the rest of the machine is up.
	if _, err := w1.Run(t.Context(), "/bin/sh", "-c", "until { "+names+"; } | grep -q sleep; do :; done"); err != nil {
		t.Fatal(err)
	}
	before := look()
	for _, scenario := range gpus.Scenarios {
		undo, err := w1.SetDriver(scenario.GPUs())
		if err != nil {
			t.Errorf("%s: %v", scenario.Name, err)
			continue
		}
		if look() == before {
			t.Errorf("%s changes nothing", scenario.Name)
		}
		if err := undo(); err != nil {
			t.Errorf("%s: %v", scenario.Name, err)
		}
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Fatalf("%s leaves something: %s", scenario.Name, diff)
		}
	}
}

func TestSetGPUsKnowsItsMachine(t *testing.T) {
	w1 := &testhosts.Node{Name: "w1"}
	for _, count := range []int{0, 9, -1} {
		if _, err := w1.SetGPUs(count); err == nil || !strings.Contains(err.Error(), "must be 1 to 8") {
			t.Errorf("%d GPUs: %v", count, err)
		}
	}
}
