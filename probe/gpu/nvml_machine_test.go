// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestUsersAreNamedByTheProcessTable(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/proc/100/cmdline": "/opt/venv/bin/python3\x00train.py\x00",
		"/proc/101/cmdline": "", "/proc/101/comm": "Xorg\n",
		"/proc/102/cmdline": "ray::" + strings.Repeat("x", 100) + "\x00",
		"/proc/self/ns/uts": "",
	})
	probetest.Link(t, o, machine.InitialPID, "/proc/self/ns/pid")
	us := machine.Owner(o, os.Getuid())
	cards := []facts.Card{{Processes: []facts.GPUUser{{PID: 100, Kind: "compute"}, {PID: 101, Kind: "graphics"}}}, {Processes: []facts.GPUUser{{PID: 102}, {PID: 103}, {PID: 0}}}}
	nameProcesses(o, cards)
	want := []facts.Card{
		{Processes: []facts.GPUUser{{PID: 100, Kind: "compute", Name: "python3", User: us}, {PID: 101, Kind: "graphics", Name: "Xorg", User: us}}},
		{Processes: []facts.GPUUser{{PID: 102, Name: "ray::" + strings.Repeat("x", 59), User: us}, {PID: 103}, {PID: 0}}},
	}
	if diff := cmp.Diff(want, cards); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUsersInAContainerHoldAGPU covers a container, in which a process ID of the machine may be
// that of another process.
func TestUsersInAContainerHoldAGPU(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/proc/7/cmdline": "python3\x00", "/proc/7/fd/0": "",
		"/proc/8/cmdline": "bash\x00", "/proc/8/fd/0": "",
		"/proc/9/cmdline":   "sshd\x00",
		"/proc/self/ns/uts": "",
	})
	probetest.Link(t, o, "pid:[4026532281]", "/proc/self/ns/pid")
	probetest.Link(t, o, "/dev/nvidia0", "/proc/7/fd/5")
	probetest.Link(t, o, "/dev/null", "/proc/8/fd/5")
	cards := []facts.Card{{Processes: []facts.GPUUser{{PID: 7}, {PID: 8}, {PID: 9}}}}
	nameProcesses(o, cards)
	want := []facts.GPUUser{{PID: 7, Name: "python3", User: machine.Owner(o, os.Getuid())}, {PID: 8}, {PID: 9}}
	if diff := cmp.Diff(want, cards[0].Processes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlaceOfASilentGPU(t *testing.T) {
	listed := []string{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"}
	for name, test := range map[string]struct {
		told []facts.Card
		want []string
	}{
		"one":               {[]facts.Card{{Index: 0, Address: listed[0]}, {Index: 1}, {Index: 2, Address: listed[2]}}, listed},
		"all":               {[]facts.Card{{Index: 0}, {Index: 1}, {Index: 2}}, listed},
		"another number":    {[]facts.Card{{Index: 0}, {Index: 1, Address: listed[1]}}, []string{"", listed[1]}},
		"another list":      {[]facts.Card{{Index: 0}, {Index: 1, Address: "0000:44:00.0"}, {Index: 2}}, []string{"", "0000:44:00.0", ""}},
		"a hole in numbers": {[]facts.Card{{Index: 0}, {Index: 1}, {Index: 3}}, []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			o := machine.Options{}
			for _, address := range listed {
				o = probetest.Write(t, o, map[string]string{"/proc/driver/nvidia/gpus/" + address + "/information": ""})
			}
			addressUnreachable(o, test.told)
			var got []string
			for _, card := range test.told {
				got = append(got, card.Address)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnshownGPUs checks that no nodes are reported if one of them may belong to a card that did
// not report its own.
func TestUnshownGPUs(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/dev/nvidia0": "", "/dev/nvidia2": "", "/dev/nvidia10": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""})
	probetest.Link(t, o, "gone", "/dev/nvidia5")
	two := facts.Card{Index: 0, Minor: new(2)}
	for name, test := range map[string]struct {
		seen facts.NVML
		want []facts.DeviceNode
	}{
		"some":          {facts.NVML{Cards: []facts.Card{two}}, []facts.DeviceNode{{Path: "/dev/nvidia0"}, {Path: "/dev/nvidia5", Problem: "no such file or directory"}, {Path: "/dev/nvidia10"}}},
		"none":          {facts.NVML{Cards: []facts.Card{two, {Minor: new(0)}, {Minor: new(5)}, {Minor: new(10)}}}, nil},
		"a silent card": {facts.NVML{Cards: []facts.Card{two, {Index: 1}}}, nil},
		"no answer":     {facts.NVML{Cards: []facts.Card{two}, Failure: &facts.NVMLFailure{}}, nil},
	} {
		if diff := cmp.Diff(test.want, hiddenNodes(o, &test.seen)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
