package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/explain"
	"preflight/report"
)

// TestDocsMatchTheCatalogues: the pages are what make docs would write.
func TestDocsMatchTheCatalogues(t *testing.T) {
	causes, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	for page, write := range map[string]func(io.Writer) error{
		"checks.md":     func(w io.Writer) error { return report.CatalogueMarkdown(w, checks.Catalogue) },
		"causes.md":     func(w io.Writer) error { return report.CausesMarkdown(w, causes) },
		"from-error.md": func(w io.Writer) error { return report.MessagesMarkdown(w, causes) },
	} {
		written, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(written)); diff != "" {
			t.Errorf("docs/%s is stale, make docs writes it anew (-want +got):\n%s", page, diff)
		}
	}
}

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
