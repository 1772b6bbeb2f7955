// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/report"
	"preflight/report/formats"
)

// TestRecordedDemo checks that the recorded run shows every fault of the demo, for machines that
// cannot start the hosts.
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

// TestDemoPartsItsHosts checks that the demo writes the two host lists that docs/ci.md describes.
func TestDemoPartsItsHosts(t *testing.T) {
	dir := t.TempDir()
	cmd := demoCommand()
	if err := cmd.ParseFlags([]string{"--good-hosts", filepath.Join(dir, "good"), "--bad-hosts", filepath.Join(dir, "bad")}); err != nil {
		t.Fatal(err)
	}
	config := Config{Format: "text", Output: []string{"html=" + filepath.Join(dir, "demo.html"), "text=" + filepath.Join(dir, "demo.txt")}}
	config.GoodHosts, config.BadHosts = cmd.Flag(formats.GoodHosts).Value.String(), cmd.Flag(formats.BadHosts).Value.String()
	if err := recordedDemo(config, "this is a test"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"good": "# good hosts, by preflight: ", "bad": "# bad hosts, by preflight: "} {
		if list, err := os.ReadFile(filepath.Join(dir, name)); !strings.HasPrefix(string(list), want) {
			t.Errorf("%s holds %q (%v)", name, list, err)
		}
	}
}
