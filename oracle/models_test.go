// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/nvml"
)

// TestModels lets preflight's agent read NVIDIA's own mock of its management library, for each GPU
// model that the mock knows. The result must equal checks/catalogue/testdata/models.
func TestModels(t *testing.T) {
	stand := filepath.Join(oracleHome(), "k8s-test-infra/pkg/gpu/mocknvml")
	if _, err := os.Stat(filepath.Join(stand, "libnvidia-ml.so.1")); err != nil {
		t.Skipf("NVIDIA's stand-in could not be fetched or built by setup.sh: %v", err)
	}
	recorded, err := filepath.Glob("../checks/catalogue/testdata/models/*.json")
	if err != nil || len(recorded) != 7 {
		t.Fatalf("%d models, %v", len(recorded), err)
	}
	for _, path := range recorded {
		model := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(model, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want facts.NVML
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			agent := exec.Command("../bin/preflight", "agent", "nvml")
			agent.Env = append(os.Environ(), "LD_LIBRARY_PATH="+stand, "MOCK_NVML_CONFIG="+filepath.Join(stand, "configs/mock-nvml-config-"+model+".yaml"))
			told, err := agent.Output()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(lasting(&want), lasting(folded(t, told))); diff != "" {
				t.Errorf("(-recorded +reported):\n%s", diff)
			}
		})
	}
}

// folded combines the lines of an agent's output. If several lines describe the same GPU, the last
// of them counts.
func folded(t *testing.T, told []byte) *facts.NVML {
	t.Helper()
	seen, done := &facts.NVML{Source: "nvml"}, false
	for line := range bytes.Lines(told) {
		var l nvml.Line
		if json.Unmarshal(line, &l) != nil {
			continue // the line is about the library
		}
		switch {
		case l.System != nil:
			seen.Driver, seen.Library, seen.CUDA = l.System.Driver, l.System.Library, l.System.CUDA
		case l.Seen != nil && l.Seen.Index < len(seen.Cards):
			seen.Cards[l.Seen.Index] = *l.Seen
		case l.Seen != nil:
			seen.Cards = append(seen.Cards, *l.Seen)
		case l.Topology != nil:
			seen.Topology = l.Topology
		case l.Peers != nil:
			seen.Peers = l.Peers
		case l.Failure != nil, l.Unloaded != "":
			t.Fatalf("%s", line)
		}
		done = done || l.Done
	}
	if !done {
		t.Fatalf("it ended early:\n%s", told)
	}
	return seen
}

// lasting returns the facts that do not change by themselves, by path. It leaves out the power and
// the clocks of the mock, which change.
func lasting(seen *facts.NVML) map[string]string {
	all := map[string]string{}
	take := func(path, value string) { all[path] = value }
	f := facts.Facts{NVML: seen}
	f.EachComparable(facts.SectionNVML, take)
	f.EachOwn(facts.SectionNVML, take)
	return all
}
