// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sections = []Section{
	SectionSSH, SectionHost, SectionClock, SectionNames, SectionNet, SectionSHM, SectionLimits, SectionMemory,
	SectionDisk, SectionEnv, SectionPython, SectionIB, SectionFiles, SectionGPU, SectionNVML, SectionToolchain, SectionKernelLog, SectionLauncher, SectionRehearsal,
	SectionMesh, SectionPeerMesh, SectionRails, SectionRendezvous, SectionPeerRendezvous, SectionLogins, SectionCallBack, SectionHub, SectionShared, SectionThroughput, SectionSmoke, SectionRehearsed,
}

func all() Facts {
	return Facts{
		SSH: &SSH{}, Host: &Host{}, Clock: &Clock{}, Names: &Names{}, Net: &Net{}, SHM: &SHM{}, Limits: &Limits{},
		Memory: &Memory{}, Disk: &Disk{}, Env: &Env{}, Python: &Python{}, IB: &IB{}, Files: &Files{}, GPU: &GPU{}, NVML: &NVML{}, Toolchain: &Toolchain{}, KernelLog: &KernelLog{}, Launcher: &Launcher{},
		Rehearsal: &Rehearsal{}, Mesh: &Mesh{}, PeerMesh: &Mesh{}, Rails: &Rails{}, Rendezvous: &Rendezvous{}, PeerRendezvous: &Rendezvous{}, Logins: &Logins{}, CallBack: &CallBack{}, Hub: &Hub{}, Shared: &Shared{}, Throughput: &Throughput{}, Smoke: &Smoke{}, Rehearsed: &Rehearsed{},
	}
}

func TestEverySectionIsHeldAndTaken(t *testing.T) {
	full, empty := all(), Facts{}
	if len(sections) != len(fieldOf) {
		t.Errorf("%d sections are named, Facts has %d", len(sections), len(fieldOf))
	}
	for _, section := range sections {
		if !full.Has(section) {
			t.Errorf("%s: seen, but Has says no", section)
		}
		if empty.Has(section) {
			t.Errorf("%s: not seen, but Has says yes", section)
		}
		var taken Facts
		taken.Take(section, full)
		for _, other := range sections {
			if taken.Has(other) != (other == section) {
				t.Errorf("taking %s: Has(%s) = %v", section, other, taken.Has(other))
			}
		}
	}
	if full.Has("no-such-section") {
		t.Error("a section nobody knows counts as seen")
	}
}

func TestComparable(t *testing.T) {
	quota := 4.0
	seen := Facts{
		Host: &Host{
			Hostname: "w1", Kernel: "6.1", Uptime: 12,
			CPU:  CPU{Online: 8, Quota: &quota},
			NUMA: []NUMA{{ID: 1, CPUs: "0-3", Bytes: 5}},
		},
		Python: &Python{Packages: map[string]string{"torch": "2.5.1"}, SysPath: []string{"/a"}},
		Files:  &Files{Files: []File{{LaunchFile: LaunchFile{Path: "/a/b.py", Role: RoleScript}, Digest: "1f", Text: "own"}}},
	}
	got := map[string]string{}
	for _, section := range Sections() {
		seen.EachComparable(section, func(path, value string) { got[path] = value })
	}
	for path, want := range map[string]string{
		"host.kernel":           `"6.1"`,
		"host.cpu.online":       "8",
		"host.cpu.quota":        "4",
		"host.numa.1.cpus":      `"0-3"`,
		"python.packages.torch": `"2.5.1"`,
		"python.sys_path":       `["/a"]`,

		"files.files./a/b.py.digest": `"1f"`,
		"files.files./a/b.py.role":   `"script"`,
	} {
		if diff := cmp.Diff(want, got[path]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for _, path := range []string{"host.hostname", "host.uptime", "host.numa.1.bytes", "python.torch", "host.load", "files.files./a/b.py.text"} {
		if value, there := got[path]; there {
			t.Errorf("%s = %s is compared, but is a node's own, volatile or absent", path, value)
		}
	}
}

func TestUnit(t *testing.T) {
	for path, want := range map[string]string{
		"shm.size":                       "bytes",
		"limits.memlock.soft":            "bytes",
		"limits.nofile.soft":             "",
		"net.interfaces.eth0.100.speed":  "bit/s",
		"net.interfaces.eth0.mtu":        "",
		"disk.places.tmp.total":          "bytes",
		"ib.devices.mlx5_0.ports.1.rate": "bit/s",
		"python.packages.torch":          "",
		"memory.total":                   "bytes",
		"files.files./a/b..py.size":      "bytes",
		"files.files./a/b..py.path":      "",
		"nonsense":                       "",
	} {
		if got := Unit(path); got != want {
			t.Errorf("Unit(%s) = %q, want %q", path, got, want)
		}
	}
}
