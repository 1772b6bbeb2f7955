// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/testhosts"
)

// TestAssistant follows docs/agents.md with nothing but the JSON reports: it runs the commands with
// the roles fix and then of each finding, and next, until the launch is ready. A finding that a
// person must decide about stops it.
func TestAssistant(t *testing.T) {
	cluster := raise(t, "assistant")
	installTorch(t, cluster)
	plantOn(t, cluster, "w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(64 << 20) })
	plantOn(t, cluster, "w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(1400) })
	if err := os.Symlink(binary(t), filepath.Join(sharedPrograms, "preflight")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	type finding struct {
		Check, Verdict string
		Fix            []string
		Roles          []string `json:"fix_roles"`
		Decide         bool
	}
	var report struct {
		ExitCode int `json:"exit_code"`
		Findings []finding
		Next     string
	}
	typed := func(command string) {
		t.Helper()
		cmd := cluster.OnHead(t.Context(), "sh", "-c", "PATH="+sharedPrograms+":$PATH; "+command)
		cmd.Dir = sharedPrograms
		out, _ := cmd.CombinedOutput() // the report has the exit code
		t.Logf("$ %s\n%.200s", command, out)
	}
	file := filepath.Join(sharedPrograms, "assistant.json")
	next, cured := "preflight -H "+testhosts.HostfilePath+" --strict --accelerator cpu --timeout "+nodeDeadline.String()+" -o json="+file+" -q", []string{}
	for range 4 {
		typed(next)
		text, err := os.ReadFile(file)
		report.Findings, report.Next = nil, ""
		if err == nil {
			err = json.Unmarshal(text, &report)
		}
		if err != nil {
			t.Fatal(err)
		}
		if report.ExitCode == 0 && (report.Next == "" || strings.Contains(report.Next, " -- ")) {
			break
		}
		for _, f := range report.Findings {
			if f.Verdict != "fail" && f.Verdict != "warn" {
				continue
			}
			if f.Decide != !slices.Contains(f.Roles, "fix") {
				t.Errorf("decide of %+v is wrong", f)
			}
			if f.Decide && f.Verdict == "fail" {
				t.Fatalf("a person must decide about %+v", f)
			}
			for i, role := range f.Roles {
				if role == "fix" || role == "then" {
					typed(f.Fix[i])
					cured = append(cured, f.Check)
				}
			}
		}
		next = report.Next
	}
	if report.ExitCode != 0 || len(report.Findings) > 0 || !slices.Contains(cured, "shm-size") {
		t.Errorf("in the end, exit code %d, cured %q, left %+v, next %q", report.ExitCode, cured, report.Findings, report.Next)
	}
}
