// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestDriverModule(t *testing.T) {
	const file = "/proc/driver/nvidia/version"
	tests := []struct {
		name    string
		files   map[string]string
		version string
		open    bool
	}{
		{"none", nil, "", false},
		{"closed", map[string]string{file: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 22:55:38 UTC 2024\nGCC version: 12\n"}, "535.161.08", false},
		{"open", map[string]string{file: "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build  (dvs-builder@U22)\n"}, "570.86.15", true},
		{"a container that hides /proc/driver", map[string]string{"/sys/module/nvidia/version": "550.54.15\n"}, "550.54.15", false},
		{"another text", map[string]string{file: "version 1\n"}, "", false},
	}
	for _, tt := range tests {
		if version, open := driverModule(probetest.Write(t, machine.Options{}, tt.files)); version != tt.version || open != tt.open {
			t.Errorf("%s: %q, %v", tt.name, version, open)
		}
	}
}

// TestDoors checks that the device node of a module that is not loaded is not opened, because the
// kernel would try to load the module. The node must be reported with the error that opening it
// would give.
func TestDoors(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/dev/nvidia0": ""})
	refused := facts.DeviceNode{Path: "/dev/nvidia-uvm", Problem: "no such device or address"}
	want := []facts.DeviceNode{refused, {Path: "/dev/nvidiactl"}, {Path: "/dev/nvidia0"}, {Path: "/dev/nvidia1", Problem: "no such file or directory"}}
	if diff := cmp.Diff(want, accessibleNodes(o, []string{"/dev/nvidia0", "/dev/nvidia1"}, []string{"nvidia"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want[0].Problem = ""
	if diff := cmp.Diff(want, accessibleNodes(o, []string{"/dev/nvidia0", "/dev/nvidia1"}, nil)); diff != "" {
		t.Errorf("where modules do not show (-want +got):\n%s", diff)
	}
	// Opening finds errors that access(2) does not find.
	if err := opens(o.At("/dev")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

func TestModprobe(t *testing.T) {
	none := probetest.Write(t, machine.Options{}, map[string]string{"/usr/bin/env": ""})
	if hasModprobe(none) {
		t.Error("found where it is not")
	}
	for mode, want := range map[os.FileMode]bool{
		0o755:                 false,
		os.ModeSetuid | 0o750: false,
		os.ModeSetuid | 0o755: os.Geteuid() == 0, // the rights of the file's owner count
		os.ModeSetgid | 0o755: false,
	} {
		o := probetest.Write(t, machine.Options{}, map[string]string{modprobeHelper: ""})
		if err := os.Chmod(o.At(modprobeHelper), mode); err != nil {
			t.Fatal(err)
		}
		if got := hasModprobe(o); got != want {
			t.Errorf("%v: %v, want %v", mode, got, want)
		}
	}
}

// TestLibcudaIsListedOnce checks that each file is listed once, under the first name in the
// loader's order. Both the name and its target may belong to a forward-compatibility package.
func TestLibcudaIsListedOnce(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/opt/conda/cuda-compat/libcuda.so.575.51.03": "\x7fELF…", "/opt/kept/libcuda.so.570.86.15": "", "/usr/local/cuda/compat/README": "", "/opt/linked/README": "",
	})
	for name, target := range map[string]string{
		"/opt/linked/libcuda.so.1":            "../conda/cuda-compat/libcuda.so.575.51.03",
		"/usr/local/cuda/compat/libcuda.so.1": "../../../../opt/kept/libcuda.so.570.86.15",
		"/usr/lib64":                          "../opt/linked",
		"/opt/kept/libcuda.so.1":              "gone",
	} {
		if err := os.Symlink(target, o.At(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := []facts.DriverLibrary{
		{Path: "/opt/linked/libcuda.so.1", Version: "575.51.03", From: "LD_LIBRARY_PATH", Compat: true},
		{Path: "/usr/local/cuda/compat/libcuda.so.1", Version: "570.86.15", From: "LD_LIBRARY_PATH", Compat: true, Problem: "0 bytes"},
	}
	if diff := cmp.Diff(want, findLibcuda(o, "/opt/linked;/opt/kept:/usr/local/cuda/compat")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestXids(t *testing.T) {
	records := "4,0,10,-;NVRM: Xid (PCI:0000:0A:00): 79, of before\n4,0,11,-;nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, of before\n" +
		"4,0,12,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n" +
		"5,1,1000000,-;NVRM: Xid (PCI:0000:0A:00): 31, pid=99, name=python, Ch 00000008\n" +
		" SUBSYSTEM=pci\n DEVICE=+pci:0000:0a:00.0\n" +
		"4,2,2000000,-;NVRM: Xid (0000:0b:00): 8, Channel 00000010\n" +
		"4,3,3000000,c;NVRM: Xid (PCI:0000:41:00 GPU-I:05): 43, pid=977, Ch 00000010\n" +
		"4,4,4000000,-;NVRM: Xid (PCI:0000:41:00): 79\n" +
		"4,5,500000000,-;NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  " + strings.Repeat("x", 400) + "\n" +
		"4,6,6000000,-;a NVRM: Xid (PCI:0000:41:00): 79, quoted\n" +
		"4,seven,seven,-;NVRM: Xid (PCI:0000:41:00): 79, no time\n" +
		"NVRM: Xid (PCI:0000:41:00): 79, no head\n" +
		"4,8,8000000,-;NVRM: Xid (PCI:0000:41:00): none, no code\n" +
		"3,9,9000000,-;nvidia-nvswitch11: SXid (PCI:0000:C1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n" +
		"3,9,9000000,-;nvidia-nvswitch11: open (major=510)\n" +
		"3,9,9000000,-;a nvidia-nvswitch11: SXid (PCI:0000:c1:00.0): 20034, Fatal, quoted\n" +
		"4,9,9000000,-;NVRM: Xid (PCI:0000:42:00): 48, the end"
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/kmsg": records, "/proc/uptime": "101.00 7.00\n"})
	got, switches, unread := readXids(t.Context(), o)
	want := []facts.Xid{
		{Code: 31, Address: "0000:0a:00", Age: 100, Text: "pid=99, name=python, Ch 00000008"},
		{Code: 8, Address: "0000:0b:00", Age: 99, Text: "Channel 00000010"},
		{Code: 43, Address: "0000:41:00", Age: 98, Text: "pid=977, Ch 00000010"},
		{Code: 79, Address: "0000:41:00", Age: 97},
		{Code: 149, Address: "0018:01:00", Age: 0, Text: "NETIR_LINK_EVT  " + strings.Repeat("x", 284)},
		{Code: 48, Address: "0000:42:00", Age: 92, Text: "the end"},
	}
	if diff := cmp.Diff(want, got); diff != "" || unread != "" {
		t.Errorf("%q (-want +got):\n%s", unread, diff)
	}
	if diff := cmp.Diff([]facts.Xid{{Code: 20034, Address: "0000:c1:00.0", Age: 92, Text: "Fatal, Link 30 LTSSM Fault Up"}}, switches); diff != "" {
		t.Errorf("of switches (-want +got):\n%s", diff)
	}
}

// TestXidsOfTheJournal covers a machine on which only root may read the kernel's log. A group may
// still read the journal.
func TestXidsOfTheJournal(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/proc/uptime": "101.00 7.00\n", "/run/systemd/journal/socket": ""})
	t.Setenv("PATH", o.At("/run/systemd/journal"))
	prints := func(lines string) {
		probetest.Program(t, o.At("/run/systemd/journal/journalctl"), "#!/bin/sh\nprintf '"+lines+"'\n")
	}
	prints(`[    0.000010] kernel: NVRM: Xid (PCI:0000:0a:00): 79, of before\n[    2.500000] kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15\n` +
		`[   41.000000] kernel: NVRM: Xid (PCI:0000:0a:00): 119, Timeout\n[  100.000000] kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30\n`)
	xids, sxids, unread := readXids(t.Context(), o)
	if diff := cmp.Diff([]facts.Xid{{Code: 119, Address: "0000:0a:00", Age: 60, Text: "Timeout"}}, xids); diff != "" || unread != "" {
		t.Errorf("%q (-want +got):\n%s", unread, diff)
	}
	if diff := cmp.Diff([]facts.Xid{{Code: 20034, Address: "0000:05:00.0", Age: 1, Text: "Fatal, Link 30"}}, sxids); diff != "" {
		t.Errorf("of switches (-want +got):\n%s", diff)
	}
	prints(`[   41.000000] kernel: NVRM: Xid (PCI:0000:0a:00): 119, Timeout\n`)
	if xids, _, unread := readXids(t.Context(), o); xids != nil || unread == "" {
		t.Errorf("%v, %q of a journal that does not go back to the start", xids, unread)
	}
}

// TestXidsOfAFlood checks that the newest of many errors are kept. An empty log must not count as
// unreadable.
func TestXidsOfAFlood(t *testing.T) {
	var records strings.Builder
	for i := range 250 {
		fmt.Fprintf(&records, "4,%d,%d000000,-;NVRM: Xid (PCI:0000:4e:00): %d, flood\n", i, i, i)
	}
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/kmsg": records.String(), "/proc/uptime": "300.00 7.00\n"})
	got, _, _ := readXids(t.Context(), o)
	if len(got) != xidMost || got[0].Code != 150 || got[xidMost-1].Code != 249 {
		t.Errorf("%d, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	probetest.Write(t, o, map[string]string{"/dev/kmsg": ""})
	if got, _, unread := readXids(t.Context(), o); got == nil || len(got) > 0 || unread != "" {
		t.Errorf("an empty log: %v, %q", got, unread)
	}
	if err := os.Remove(o.At("/dev/kmsg")); err != nil {
		t.Fatal(err)
	}
	if got, switches, unread := readXids(t.Context(), o); got != nil || switches != nil || unread != "no such file or directory" {
		t.Errorf("no log: %v, %q", got, unread)
	}
}

func TestFabricManager(t *testing.T) {
	t.Setenv("PATH", "")
	o := probetest.Write(t, machine.Options{}, map[string]string{"/proc/7/comm": "python\n", "/proc/self/comm": "nv-fabricmanage\n"})
	if got := fabricManager(t.Context(), o, 0); got != nil {
		t.Errorf("without switches: %+v", got)
	}
	if diff := cmp.Diff(&facts.FabricManager{}, fabricManager(t.Context(), o, 4)); diff != "" {
		t.Errorf("with switches (-want +got):\n%s", diff)
	}
	// If systemd did not start the machine, systemctl has nothing to report.
	probetest.Program(t, o.At("/proc/systemctl"), "#!/bin/sh\necho ActiveState=active\n")
	t.Setenv("PATH", o.At("/proc"))
	if got := unitState(t.Context(), o, "nvidia-fabricmanager"); got != "" {
		t.Errorf("without systemd: %q", got)
	}
	// A program that hangs still counts as installed.
	probetest.Write(t, o, map[string]string{"/usr/sbin/README": "", "/proc/9/comm": "nv-fabricmanage\n"})
	probetest.Program(t, o.At("/usr/sbin/nv-fabricmanager"), "#!/bin/sh\nexec /bin/sleep 300\n")
	if diff := cmp.Diff(&facts.FabricManager{Installed: true, Running: true}, fabricManager(t.Context(), o, 0)); diff != "" {
		t.Errorf("hanging (-want +got):\n%s", diff)
	}
}
