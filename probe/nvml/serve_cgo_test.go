// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// library returns a substitute that has the functions with the given names.
func library(has ...string) *mock.Interface {
	return &mock.Interface{
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if !slices.Contains(has, name) {
					return errors.New("undefined symbol: " + name)
				}
				return nil
			}}
		},
		InitFunc:        func() nvml.Return { return nvml.SUCCESS },
		ErrorStringFunc: func(ret nvml.Return) string { return "as the library says" },
	}
}

// asked returns a GPU with a handle and an index, and the output of its calls.
func asked(index int, device *mock.Device, has ...string) (*card, *bytes.Buffer) {
	var out bytes.Buffer
	r := newReader(library(has...), lines{&out})
	return &card{caller: &caller{reader: r, card: &index}, device: device, seen: facts.Card{Index: index}}, &out
}

// spoken returns the lines that were written.
func spoken(t *testing.T, out *bytes.Buffer) []Line {
	t.Helper()
	var lines []Line
	for text := range strings.Lines(out.String()) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		var line Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWhatIsAFailure(t *testing.T) {
	for ret, test := range map[nvml.Return]struct{ failure, refused string }{
		nvml.SUCCESS:                         {},
		nvml.ERROR_NOT_SUPPORTED:             {},
		nvml.ERROR_NO_PERMISSION:             {refused: facts.FailureNoPermission},
		nvml.ERROR_FUNCTION_NOT_FOUND:        {},
		nvml.ERROR_INVALID_ARGUMENT:          {},
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: {},
		nvml.ERROR_GPU_IS_LOST:               {failure: facts.FailureLost},
		nvml.ERROR_RESET_REQUIRED:            {failure: facts.FailureReset},
		nvml.ERROR_INSUFFICIENT_POWER:        {failure: facts.FailureOther},
		nvml.ERROR_IRQ_ISSUE:                 {failure: facts.FailureOther},
		nvml.ERROR_CORRUPTED_INFOROM:         {refused: facts.FailureOther},
		nvml.ERROR_UNKNOWN:                   {refused: facts.FailureUnknown},
		nvml.ERROR_TIMEOUT:                   {refused: facts.FailureOther},
		nvml.Return(77):                      {refused: facts.FailureOther},
	} {
		device := &mock.Device{GetSerialFunc: func() (string, nvml.Return) { return "1", ret }}
		c, _ := asked(0, device, "nvmlDeviceGetSerial", "nvmlErrorString")
		serial, ok := result(c.caller, device.GetSerial, "nvmlDeviceGetSerial")
		if ok != (ret == nvml.SUCCESS) || ok && serial != "1" {
			t.Errorf("%d: told %q, %t", ret, serial, ok)
		}
		c.write()
		want := facts.Card{}
		failure := facts.NVMLFailure{Kind: test.failure + test.refused, Code: int(ret), Call: "nvmlDeviceGetSerial", Text: "as the library says"}
		if test.failure != "" {
			want.Failure = &failure
		}
		if test.refused != "" {
			want.Refused = []facts.NVMLFailure{failure}
		}
		if diff := cmp.Diff(want, c.seen); diff != "" {
			t.Errorf("%d (-want +got):\n%s", ret, diff)
		}
	}
}

func TestFirstFailureIsKeptAndALostGPUIsLeftAlone(t *testing.T) {
	var called []string
	answer := func(name string, ret nvml.Return) func() (string, nvml.Return) {
		return func() (string, nvml.Return) { called = append(called, name); return "", ret }
	}
	c, _ := asked(0, &mock.Device{}, "a", "b", "c", "d")
	result(c.caller, answer("a", nvml.ERROR_RESET_REQUIRED), "a")
	result(c.caller, answer("b", nvml.ERROR_IRQ_ISSUE), "b")
	if c.failure == nil || c.failure.Call != "a" || c.failure.Text != "error 16" {
		t.Errorf("kept %+v, want that of a, in our words where the library has none", c.failure)
	}
	c.failure = nil
	result(c.caller, answer("c", nvml.ERROR_GPU_IS_LOST), "c")
	result(c.caller, answer("d", nvml.SUCCESS), "d")
	if want := []string{"a", "b", "c"}; !slices.Equal(called, want) {
		t.Errorf("called %q, want %q", called, want)
	}
}

// TestRefusalsAreKeptOnce checks that a refusal that repeats for many links is recorded once.
func TestRefusalsAreKeptOnce(t *testing.T) {
	c, _ := asked(0, &mock.Device{}, "a", "b", "c")
	for _, name := range []string{"a", "a", "b", "a", "c", "b"} {
		result(c.caller, func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }, name)
	}
	var kept []string
	for _, refusal := range c.refused {
		kept = append(kept, refusal.Call)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(kept, want) || c.failure != nil {
		t.Errorf("kept %q and failure %+v, want %q and none", kept, c.failure, want)
	}
}

// TestCallsAreAnnouncedByTheNameThatTheLibraryHas checks that a missing function is never called.
// An alternative must be announced by its own name before the call.
func TestCallsAreAnnouncedByTheNameThatTheLibraryHas(t *testing.T) {
	var out *bytes.Buffer
	var before []Line
	device := &mock.Device{GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
		before = spoken(t, out)
		return nil, nvml.SUCCESS
	}}
	var c *card
	c, out = asked(3, device, "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	c.processes()
	three := 3
	want := []Line{{Call: "nvmlDeviceGetComputeRunningProcesses_v2", Card: &three}}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("said before the call (-want +got):\n%s", diff)
	}
	if after := spoken(t, out); len(after) != 1 {
		t.Errorf("calls the library does not have: %+v", after)
	}
}

func TestGPUWithoutHandleIsListed(t *testing.T) {
	var out bytes.Buffer
	driver := library("nvmlErrorString", "nvmlDeviceGetUUID")
	driver.DeviceGetCountFunc = func() (int, nvml.Return) { return 2, nvml.SUCCESS }
	driver.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 0 {
			return nil, nvml.ERROR_UNKNOWN
		}
		return &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "GPU-1", nvml.SUCCESS }}, nvml.SUCCESS
	}
	newReader(driver, lines{&out}).read()
	last := map[int]facts.Card{}
	for _, line := range spoken(t, &out) {
		if line.Seen != nil {
			last[line.Seen.Index] = *line.Seen
		}
		if line.Card != nil && *line.Card == 1 && last[0].Failure == nil {
			t.Fatal("GPU 1 is asked before it is said that GPU 0 failed")
		}
	}
	want := map[int]facts.Card{
		0: {Index: 0, Failure: &facts.NVMLFailure{Kind: facts.FailureUnknown, Code: 999, Call: "nvmlDeviceGetHandleByIndex_v2", Text: "as the library says"}},
		1: {Index: 1, UUID: "GPU-1"},
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHiddenGPUs checks that GPUs that the driver hides from this session do not count as faulty,
// unless it hides all.
func TestHiddenGPUs(t *testing.T) {
	for name, test := range map[string]struct {
		handles []nvml.Return
		shown   []int
		hidden  int
		failure string
	}{
		"two of three": {[]nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.SUCCESS, nvml.ERROR_OPERATING_SYSTEM}, []int{1}, 2, ""},
		"all":          {[]nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION}, nil, 2, facts.FailureNoPermission},
		"none":         {[]nvml.Return{nvml.SUCCESS, nvml.SUCCESS}, []int{0, 1}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			driver := library("nvmlErrorString", "nvmlDeviceGetUUID")
			driver.DeviceGetCountFunc = func() (int, nvml.Return) { return len(test.handles), nvml.SUCCESS }
			driver.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
				return &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "GPU", nvml.SUCCESS }}, test.handles[index]
			}
			newReader(driver, lines{&out}).read()
			var shown []int
			hidden, failure := 0, ""
			for _, line := range spoken(t, &out) {
				hidden = max(hidden, line.Hidden)
				if line.Seen != nil && !slices.Contains(shown, line.Seen.Index) {
					shown = append(shown, line.Seen.Index)
				}
				if line.Failure != nil {
					failure = line.Failure.Kind
				}
				if line.Topology != nil && len(line.Topology) != len(test.shown) {
					t.Errorf("topology %q, want a row for each GPU that is shown", line.Topology)
				}
			}
			if !slices.Equal(shown, test.shown) || hidden != test.hidden || failure != test.failure {
				t.Errorf("shown %v, hidden %d, failure %q; want %v, %d, %q", shown, hidden, failure, test.shown, test.hidden, test.failure)
			}
		})
	}
}

func TestDriverWithoutGPUs(t *testing.T) {
	for name, test := range map[string]struct {
		init, count nvml.Return
		want        string
	}{
		"none":     {nvml.SUCCESS, nvml.SUCCESS, facts.FailureNotFound},
		"no count": {nvml.SUCCESS, nvml.ERROR_UNKNOWN, facts.FailureUnknown},
		"no init":  {nvml.ERROR_DRIVER_NOT_LOADED, nvml.SUCCESS, facts.FailureNoDriver},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			driver := library("nvmlSystemGetNVMLVersion")
			driver.InitFunc = func() nvml.Return { return test.init }
			driver.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, test.count }
			driver.SystemGetNVMLVersionFunc = func() (string, nvml.Return) { return "12.550", nvml.SUCCESS }
			newReader(driver, lines{&out}).read()
			var failure *facts.NVMLFailure
			var system *System
			for _, line := range spoken(t, &out) {
				if line.Failure != nil {
					failure = line.Failure
				}
				if line.System != nil {
					system = line.System
				}
			}
			if failure == nil || failure.Kind != test.want || failure.Text == "" {
				t.Errorf("failure %+v, want %s", failure, test.want)
			}
			if diff := cmp.Diff(&System{Library: "12.550"}, system); diff != "" {
				t.Errorf("the library's version is one half of a mismatch (-want +got):\n%s", diff)
			}
			if len(driver.ShutdownCalls()) > 0 {
				t.Error("NVML was shut down")
			}
		})
	}
}
