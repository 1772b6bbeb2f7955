// SPDX-License-Identifier: Apache-2.0

package python

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/probetest"
)

func TestParseDistribution(t *testing.T) {
	tests := []struct{ entry, want string }{
		{"torch-2.5.1+cu124.dist-info", "torch 2.5.1+cu124"},
		{"nvidia_nccl_cu12-2.21.5.dist-info", "nvidia-nccl-cu12 2.21.5"},
		{"PyYAML-6.0.dist-info", "pyyaml 6.0"},
		{"flash_attn-2.6.3.egg-info", "flash-attn 2.6.3"},
		{"apex-0.1-py3.10.egg-info", "apex 0.1"},
		{"apex-0.1-py3.10-linux-x86_64.egg-info", "apex 0.1"},
		{"deepspeed.egg-info", "deepspeed "},
		{"~orch-2.5.1.dist-info", "~orch 2.5.1"}, // pip gives this name to a half-removed package
		{"zope.interface-5.0-py3.8.egg-info", "zope-interface 5.0"},
		{"torch", ""},
		{"torch-2.5.1.dist-info.bak", ""},
		{".dist-info", ""},
	}
	for _, tt := range tests {
		name, version, ok := parseDistribution(tt.entry)
		got := ""
		if ok {
			got = name + " " + version
		}
		if got != tt.want {
			t.Errorf("parseDistribution(%q) = %q, want %q", tt.entry, got, tt.want)
		}
	}
}

func TestIsInteresting(t *testing.T) {
	for name, want := range map[string]bool{"torch": true, "nvidia-cublas-cu12": true, "torchx": false, "nvidia": false, "transformer-engine-cu12": true} {
		if got := isAmong(interesting, name); got != want {
			t.Errorf("isAmong(interesting, %q) = %v, want %v", name, got, want)
		}
	}
}

func TestReadSite(t *testing.T) {
	root := probetest.Plant(t, `
-- a/protobuf-4.25.1.dist-info/METADATA --
-- a/protobuf-3.20.3.dist-info/METADATA --
-- a/apex.egg-info --
Version: 0.1
-- a/vllm.egg-info/top_level.txt --
-- a/__editable___deepspeed_0_16_0_finder.py --
from __future__ import annotations
MAPPING: dict[str, str] = {'deepspeed': '/src/DeepSpeed/deepspeed', 'csrc.x': '/src/DeepSpeed/csrc'}
NAMESPACES: dict[str, list[str]] = {'other': ['/nowhere']}
-- b/protobuf-5.0.dist-info/METADATA --
`)
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	s := readSite(t.Context(), []string{a, filepath.Join(root, "absent"), a + "/.", b})
	if diff := cmp.Diff(map[string]string{"protobuf": "3.20.3", "apex": "0.1"}, s.versions()); diff != "" {
		t.Errorf("versions (-want +got)\n%s", diff)
	}
	shadowed := []string{
		fmt.Sprintf("protobuf 3.20.3 in %s hides 4.25.1 in %s", a, a),
		fmt.Sprintf("protobuf 3.20.3 in %s hides 5.0 in %s", a, b),
	}
	if diff := cmp.Diff(shadowed, s.shadowed()); diff != "" {
		t.Errorf("shadowed (-want +got)\n%s", diff)
	}
	editable := map[string]string{"deepspeed": "/src/DeepSpeed/deepspeed", "csrc.x": "/src/DeepSpeed/csrc"}
	if diff := cmp.Diff(editable, s.editable); diff != "" {
		t.Errorf("editable (-want +got)\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	root := probetest.Plant(t, `
-- a/torch/readme --
-- b/torch/version.py --
-- src/torch/version.py --
-- src/only/version.py --
`)
	s := site{
		dirs:     []string{filepath.Join(root, "a"), filepath.Join(root, "b")},
		editable: map[string]string{"torch": filepath.Join(root, "src/torch"), "only": filepath.Join(root, "src/only")},
	}
	for module, want := range map[string]string{"torch": "b/torch", "only": "src/only", "none": ""} {
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := s.find(module, "version.py"); got != want {
			t.Errorf("find(%s) = %q, want %q", module, got, want)
		}
	}
}

func TestParseTorchVersion(t *testing.T) {
	tests := []struct {
		name, text string
		want       facts.Torch
	}{
		{"wheel for CUDA", "__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n", facts.Torch{Version: "2.5.1+cu124", CUDA: "12.4"}},
		{"older, without types", "__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\nhip = None\n", facts.Torch{Version: "1.13.1+cu117", CUDA: "11.7"}},
		{"CPU", "__version__ = '2.4.0+cpu'\ncuda: Optional[str] = None\n", facts.Torch{Version: "2.4.0+cpu"}},
		{"ROCm, newer types", "__version__ = \"2.8.0+rocm6.4\"\ncuda: str | None = None\nhip: str | None = '6.4.43482'\n", facts.Torch{Version: "2.8.0+rocm6.4", HIP: "6.4.43482"}},
		{"empty", "", facts.Torch{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, parseTorchVersion(tt.text)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestParseNCCLRequirement(t *testing.T) {
	tests := map[string]string{
		`nvidia-nccl-cu12==2.21.5; platform_system == "Linux"`:     "2.21.5",
		`nvidia-nccl-cu12 (==2.18.1) ; platform_system == "Linux"`: "2.18.1",
		`nvidia-nccl-cu13==2.27.7 ; sys_platform == "linux"`:       "2.27.7",
		`nvidia-cublas-cu12==12.4.5.8`:                             "",
		`my-nvidia-nccl-cu12==1.0`:                                 "",
		`nvidia-nccl-cu12>=2.0`:                                    "",
	}
	for requirement, want := range tests {
		if got := parseNCCLRequirement(requirement); got != want {
			t.Errorf("parseNCCLRequirement(%q) = %q, want %q", requirement, got, want)
		}
	}
}

func TestReadTorchWithoutVersionFile(t *testing.T) {
	if got := readTorch("", nil); got != nil {
		t.Errorf("torch seen where there is none: %+v", got)
	}
	got := readTorch("", []installedPackage{{version: "2.4.0", metadata: filepath.Join(t.TempDir(), "gone")}})
	if diff := cmp.Diff(&facts.Torch{Version: "2.4.0"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadTorchStopsBeforeTheDescription(t *testing.T) {
	metadata := filepath.Join(probetest.Plant(t, `
-- METADATA --
Name: torch
Requires-Dist: filelock

Requires-Dist: nvidia-nccl-cu12==2.21.5 is what other builds ask for.
`), "METADATA")
	got := readTorch("", []installedPackage{{version: "2.4.0", metadata: metadata}})
	if diff := cmp.Diff(&facts.Torch{Version: "2.4.0"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
