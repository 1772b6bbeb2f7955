// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
)

// clearPlaces removes everything that influences the places, except the test's own settings.
func clearPlaces(t *testing.T) {
	for _, name := range []string{"HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TRITON_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"} {
		t.Setenv(name, "")
	}
}

func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		workDir string
		env     map[string]string
		want    map[string]string
	}{
		"nothing set": {"/srv", nil, map[string]string{
			"workdir": "/srv", "tmp": "/tmp", "var-tmp": "/var/tmp", "home": "/home/ml", "hf-cache": "/home/ml/.cache/huggingface",
			"triton-cache": "/home/ml/.triton", "torch-extensions": "/home/ml/.cache/torch_extensions",
		}},
		"all set": {"", map[string]string{
			"HOME": "/nfs/ml", "TMPDIR": "/local/tmp/", "HF_HUB_CACHE": "/hub", "HF_HOME": "/hf", "TRITON_CACHE_DIR": "/triton", "TORCHINDUCTOR_CACHE_DIR": "/inductor", "TORCH_EXTENSIONS_DIR": "/ext",
		}, map[string]string{
			"tmp": "/local/tmp", "var-tmp": "/var/tmp", "home": "/nfs/ml", "hf-cache": "/hub", "triton-cache": "/triton", "inductor-cache": "/inductor", "torch-extensions": "/ext",
		}},
		"one level up": {"relative", map[string]string{"XDG_CACHE_HOME": "/cache", "HF_HOME": "~/hf", "TRITON_HOME": "/scratch"}, map[string]string{
			"tmp": "/tmp", "var-tmp": "/var/tmp", "home": "/home/ml", "hf-cache": "/home/ml/hf", "triton-cache": "/scratch/.triton", "torch-extensions": "/cache/torch_extensions",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			clearPlaces(t)
			for _, place := range places(machine.Options{WorkDir: test.workDir, Exports: test.env}, "/home/ml") {
				got[place.Role] = place.Path
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOffloadPlaces checks that ZeRO's offload directories are places as well. They must be
// resolved as DeepSpeed does it, without expanding "~".
func TestOffloadPlaces(t *testing.T) {
	o := machine.Options{WorkDir: "/srv", Places: map[string]string{"offload-param": "~/nvme", "offload-optimizer": "/nvme/"}}
	clearPlaces(t)
	var got []facts.Place
	for _, place := range places(o, "/home/ml") {
		if strings.HasPrefix(place.Role, "offload") {
			got = append(got, place)
		}
	}
	want := []facts.Place{{Role: "offload-optimizer", Path: "/nvme"}, {Role: "offload-param", Path: "/srv/~/nvme"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartsFitInsideTheirSections(t *testing.T) {
	if machine.PlaceLimit+machine.LastWords >= DiskLimit {
		t.Errorf("one hung place (%s) costs the whole disk section (%s)", machine.PlaceLimit, DiskLimit)
	}
	if scanLimit >= SHMLimit {
		t.Errorf("the scan for users (%s) costs the whole shm section (%s)", scanLimit, SHMLimit)
	}
}
