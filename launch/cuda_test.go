// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"preflight/facts"
)

func TestDriverRuns(t *testing.T) {
	for _, c := range []struct {
		name, driver, cuda, toolkit string
		runs, known                 bool
	}{
		{"the toolkit it came with", "550.54.15", "12.4", "12.4", true, true},
		{"an older toolkit", "550.54.15", "12.4", "11.8", true, true},
		{"a newer toolkit of its major version", "535.161.08", "12.2", "12.6", true, true},
		{"the first of its major version", "525.60.13", "12.0", "12.6", true, true},
		{"before the first", "525.53", "", "12.6", false, true},
		{"a newer major version", "535.161.08", "12.2", "13.0", false, true},
		{"CUDA 11.0 as it came", "450.36.06", "11.0", "11.8", false, true},
		{"CUDA 11.0, a later one", "450.80.02", "11.0", "11.8", true, true},
		{"before there was such compatibility", "410.104", "10.0", "10.2", false, true},
		{"its table", "440.33.01", "10.2", "10.2", true, true},
		{"only the driver is known", "550.54.15", "", "12.4", true, true},
		{"only libcuda counts, newer major version", "", "13.0", "13.0", true, true},
		{"only libcuda counts, minor", "", "12.2", "12.4", true, true},
		{"only libcuda counts, too old", "", "12.2", "13.0", false, true},
		{"only libcuda counts, before 11", "", "10.1", "10.2", false, true},
		{"a major version to come, as the driver", "700.10", "14.1", "14.2", true, true},
		{"a major version to come, an older driver", "590.10", "13.1", "14.0", false, true},
		{"a major version to come, nothing told", "590.10", "", "14.0", false, false},
		{"nothing", "", "", "12.4", false, false},
		{"no toolkit", "550.54.15", "12.4", "", false, false},
	} {
		runs, known := DriverRuns(c.driver, c.cuda, c.toolkit)
		if runs != c.runs || known != c.known {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, runs, known, c.runs, c.known)
		}
	}
}

func TestLeastDriver(t *testing.T) {
	for toolkit, want := range map[string]string{
		"13.0": "580.65.06", "12.4": "525.60.13", "12": "525.60.13", "11.8": "450.80.02", "10.2": "440.33", "10.0": "410.48", "1.2": "", "14.0": "", "": "",
	} {
		if got := LeastDriver(toolkit); got != want {
			t.Errorf("CUDA %s: %q, want %q", toolkit, got, want)
		}
	}
}

func TestTorchCode(t *testing.T) {
	for _, c := range []struct {
		name, version, cuda, arch, capability string
		want                                  GPUCode
	}{
		{"H100", "2.5.1+cu124", "12.4", "x86_64", "9.0", CodeNative},
		{"L4, by code for 8.6", "2.5.1+cu124", "12.4", "x86_64", "8.9", CodeNative},
		{"P40, by code for 6.0", "2.5.1+cu124", "12.4", "x86_64", "6.1", CodeNative},
		{"B200 and a build before it", "2.6.0+cu124", "12.4", "x86_64", "10.0", CodeNone},
		{"RTX 5090 and a build before it", "2.6.0+cu126", "12.6", "x86_64", "12.0", CodeNone},
		{"RTX 5090", "2.7.1+cu128", "12.8", "x86_64", "12.0", CodeNative},
		{"GB10, by code for 12.0", "2.8.0+cu129", "12.9", "x86_64", "12.1", CodeNative},
		{"B300, by code for 10.0", "2.8.0+cu128", "12.8", "x86_64", "10.3", CodeNative},
		{"V100, left out", "2.7.0+cu128", "12.8", "x86_64", "7.0", CodeNone},
		{"V100, taken back", "2.8.0+cu128", "12.8", "x86_64", "7.0", CodeNative},
		{"V100, left out again", "2.11.0+cu128", "12.8", "x86_64", "7.0", CodeNone},
		{"V100 and the build that keeps it", "2.11.0+cu126", "12.6", "x86_64", "7.0", CodeNative},
		{"H100 and a build before it", "2.0.1+cu117", "11.7", "x86_64", "9.0", CodeNone},
		{"K80", "2.0.1+cu117", "11.7", "x86_64", "3.5", CodeNone},
		{"what is to come", "2.9.1+cu130", "13.0", "x86_64", "13.0", CodePTX},
		{"what is to come, without PTX", "2.9.1+cu128", "12.8", "x86_64", "13.0", CodeNone},
		{"between two that it has", "2.9.1+cu130", "13.0", "x86_64", "11.0", CodeNone},
		{"another processor", "2.6.0+cu124", "12.4", "aarch64", "10.0", ""},
		{"a build of conda", "2.6.0", "12.4", "x86_64", "10.0", ""},
		{"a build of NVIDIA's", "2.6.0a0+df5bbc09d1.nv24.12", "12.6", "x86_64", "10.0", ""},
		{"a label that is not its own", "2.6.0+cu118", "12.4", "x86_64", "10.0", ""},
		{"a release to come", "2.40.0+cu126", "12.6", "x86_64", "12.0", ""},
		{"a GPU that does not tell", "2.6.0+cu124", "12.4", "x86_64", "", ""},
	} {
		got, built := TorchCode(facts.Torch{Version: c.version, CUDA: c.cuda}, c.arch, c.capability)
		if got != c.want || (built == nil) != (got == "") {
			t.Errorf("%s: %q (built for %q), want %q", c.name, got, built, c.want)
		}
	}
}

func TestCodeFor(t *testing.T) {
	const nccl = "sm_50 sm_60 sm_61 sm_70 sm_80 sm_90 compute_90" // the GPUs for which NCCL 2.21.5 is built
	for _, c := range []struct {
		name, built, capability string
		want                    GPUCode
	}{
		{"H100", nccl, "9.0", CodeNative},
		{"L40S, by code for 8.0", nccl, "8.9", CodeNative},
		{"B200, by PTX", nccl, "10.0", CodePTX},
		{"K80, before all", nccl, "3.7", CodeNone},
		{"B200 of machine code for Hopper", "sm_90", "10.0", CodeNone},
		{"A100 of code for 8.6", "sm_86 compute_86", "8.0", CodeNone},
		{"PTX before machine code", "compute_80 sm_90", "9.0", CodeNative},
		{"B300 of code for B200", "sm_100 sm_120", "10.3", CodeNative},
		{"nothing", "", "9.0", CodeNone},
		{"what no tool writes", "sm_ compute_ 90 compute", "9.0", CodeNone},
	} {
		if got := CodeFor(strings.Fields(c.built), c.capability); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTorchFor(t *testing.T) {
	for _, c := range []struct {
		name, version, driver, cuda, capability string
		want                                    Wheels
	}{
		{"the driver's own CUDA", "2.10.0+cpu", "580.65.06", "13.0", "9.0", Wheels{"cu130", "2.10.0", "2.9", "2.13"}},
		{"an older one", "2.5.1+cpu", "535.161.08", "12.2", "9.0", Wheels{"cu121", "2.5.1", "2.1", "2.6"}},
		{"none of its own: the oldest that it runs", "2.9.1+cu130", "550.54.15", "12.4", "9.0", Wheels{"cu126", "2.9.1", "2.6", "2.13"}},
		{"and that has code for the GPU", "2.10.0+cu130", "570.124.06", "12.8", "10.0", Wheels{"cu128", "2.10.0", "2.8", "2.11"}},
		{"Volta, which newer ones dropped", "2.12.0+cu130", "580.65.06", "13.0", "7.0", Wheels{"cu126", "2.12.0", "2.6", "2.13"}},
		{"a release of before the GPU: the next later", "2.5.1+cu124", "570.86.15", "12.8", "10.0", Wheels{"cu128", "", "2.7", "2.8"}},
		{"a release that has left the driver behind: the last before", "2.9.1+cu130", "470.256.02", "11.4", "8.0", Wheels{"cu118", "", "2.0", "2.8"}},
		{"a build of a commit", "2.6.0a0+df5bbc09d1.nv24.12", "550.54.15", "12.4", "9.0", Wheels{"cu124", "2.6.0", "2.4", "2.7"}},
		{"no release at all: the last", "trunk", "580.65.06", "13.0", "9.0", Wheels{"cu129", "", "2.12", "2.14"}},
		{"GPUs that tell nothing", "2.5.1+cpu", "550.54.15", "12.4", "", Wheels{"cu124", "2.5.1", "2.4", "2.7"}},
		{"only libcuda's word", "2.9.1+cu130", "", "12.8", "9.0", Wheels{"cu128", "2.9.1", "2.8", "2.11"}},
		{"a driver of CUDA 10", "2.5.1+cpu", "440.33.01", "10.2", "7.0", Wheels{}},
		{"a GPU to come", "2.12.0+cu132", "590.44.01", "13.1", "14.0", Wheels{}},
	} {
		var capabilities []string
		if c.capability != "" {
			capabilities = []string{c.capability}
		}
		got, found := TorchFor(facts.Torch{Version: c.version}, c.driver, c.cuda, capabilities)
		if got != c.want || found != (c.want != Wheels{}) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, found, c.want)
		}
	}
}

// TestTorchForHasTheCode: preflight never reports that the proposed wheel lacks code for the GPU.
func TestTorchForHasTheCode(t *testing.T) {
	for _, capability := range []string{"3.7", "5.2", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"} {
		for _, driver := range []struct{ version, cuda string }{{"470.256.02", "11.4"}, {"550.54.15", "12.4"}, {"570.124.06", "12.8"}, {"580.65.06", "13.0"}, {"590.44.01", "13.1"}} {
			for _, release := range []string{"1.13.1", "2.0.1", "2.5.1", "2.7.0", "2.9.1", "2.11.0", "2.12.0"} {
				wheels, found := TorchFor(facts.Torch{Version: release}, driver.version, driver.cuda, []string{capability})
				if !found || wheels.Release == "" {
					continue
				}
				digits := strings.TrimPrefix(wheels.Index, "cu")
				cuda := digits[:2] + "." + digits[2:]
				if runs, _ := DriverRuns(driver.version, driver.cuda, cuda); !runs {
					t.Errorf("driver %s does not run %s", driver.version, wheels.Index)
				}
				code, _ := TorchCode(facts.Torch{Version: release + "+" + wheels.Index, CUDA: cuda}, "x86_64", capability)
				if code != CodeNative {
					t.Errorf("torch %s+%s has %q for %s", release, wheels.Index, code, capability)
				}
			}
		}
	}
}
