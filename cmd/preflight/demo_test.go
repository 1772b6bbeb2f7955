package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/report"
)

// TestRecordedDemo: where no cluster can be raised, the recording still shows
// every fault that the demo plants.
func TestRecordedDemo(t *testing.T) {
	saved, err := report.Read(bytes.NewReader(recordedRun))
	if err != nil {
		t.Fatal(err)
	}
	judged := rejudge(saved, checks.DefaultPolicy())
	got := map[string]string{}
	for _, finding := range judged.Findings {
		for _, node := range finding.Nodes {
			got[node] += finding.Check
		}
	}
	want := map[string]string{"w1": "master-address", "w2": "shm-size", "w3": "protobuf-same", "w4": "ssh-shell", "w5": "ssh-host-key", "w6": "ssh-reach", "w7": "node-mesh", "w8": "gpu-driver-loads"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node → check (-want +got):\n%s", diff)
	}
}
