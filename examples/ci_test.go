// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// strictly decodes a YAML file and fails the test if the file has a key that the target lacks.
func strictly(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// gates maps names to fleets, each with the exit code with which a pipeline's job ends.
var gates = map[string]struct {
	fleet fleet
	code  int
}{"healthy": {healthy, 0}, "faulty": {faulty, 1}, "dark": {dark, 2}}

// drifted runs a pipeline's step on healthy nodes whose torch differs from the committed baseline.
func drifted(t *testing.T, argv ...string) {
	t.Helper()
	d := newDesk(t, healthy, "hostfile")
	d.golden(t, "2.4.0+cu124", "2.5.1+cu124")
	d.env["GITHUB_STEP_SUMMARY"] = filepath.Join(d.dir, "summary.md")
	if out, code := d.run(t, argv...); code != 1 || !strings.Contains(out, "drift") || !strings.Contains(out, "2.4.0+cu124") {
		t.Errorf("a fleet that has changed: exit code %d:\n%s", code, out)
	}
}

// TestGitHubActions runs the workflow's step and checks that the next steps and GitHub find the
// results of the step.
func TestGitHubActions(t *testing.T) {
	type step struct {
		Name, Uses, Run, If string
		With                map[string]string
	}
	var workflow struct {
		Name, Concurrency string
		On                map[string]any
		Permissions       map[string]string
		Jobs              map[string]struct {
			Needs   string
			RunsOn  []string `yaml:"runs-on"`
			Timeout int      `yaml:"timeout-minutes"`
			Steps   []step
		}
	}
	strictly(t, "github-actions/preflight.yml", &workflow)
	judge, upload := workflow.Jobs["preflight"].Steps[1], workflow.Jobs["preflight"].Steps[2]
	if workflow.Jobs["train"].Needs != "preflight" || upload.If != "always()" {
		t.Error("the training does not wait, or a failed report is lost")
	}
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "hostfile")
		d.golden(t, "", "")
		// Set up the same environment as a runner (docs.github.com, "Defaults for run"). The
		// summary file exists, and the shell ends at the first failure.
		d.env["GITHUB_STEP_SUMMARY"] = filepath.Join(d.dir, "summary,=.md")
		if err := os.WriteFile(d.env["GITHUB_STEP_SUMMARY"], nil, 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := d.run(t, "bash", "-e", "-c", judge.Run)
		if code != gate.code || !strings.HasPrefix(out, "::notice title=preflight::") {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
		if errors := strings.Contains(out, "\n::error title="); errors != (gate.code != 0) {
			t.Errorf("%s: annotations: %s", name, out)
		}
		if summary := d.wrote(t, "summary,=.md"); !strings.Contains(summary, "\n## ") {
			t.Errorf("%s: the summary is %q", name, summary)
		}
		kept := strings.Fields(upload.With["path"])
		if want := []string{"preflight.html", "preflight.xml", "preflight.json"}; !slices.Equal(kept, want) {
			t.Errorf("%q is kept, want %q", kept, want)
		}
		for _, path := range kept {
			d.wrote(t, path)
		}
	}
	drifted(t, "bash", "-e", "-c", judge.Run)
}

// TestGitLab checks the keys against docs.gitlab.com/ci/yaml, and runs the script.
func TestGitLab(t *testing.T) {
	type job struct {
		Stage         string
		Tags, Script  []string
		Timeout       string
		ResourceGroup string `yaml:"resource_group"`
		Artifacts     struct {
			When     string
			ExpireIn string `yaml:"expire_in"`
			ExposeAs string `yaml:"expose_as"`
			Paths    []string
			Reports  struct{ JUnit string }
		}
	}
	var pipeline struct {
		Stages           []string
		Preflight, Train job
	}
	strictly(t, "gitlab/.gitlab-ci.yml", &pipeline)
	judge := pipeline.Preflight
	if len(pipeline.Stages) != 2 || pipeline.Stages[0] != judge.Stage || pipeline.Stages[1] != pipeline.Train.Stage {
		t.Errorf("the training does not come after: %q", pipeline.Stages)
	}
	if judge.Artifacts.When != "always" || !regexp.MustCompile(`^\d+ (?:minutes|days)$`).MatchString(judge.Artifacts.ExpireIn) {
		t.Errorf("a failed report is lost: %+v", judge.Artifacts)
	}
	// GitLab makes no link for paths with a wildcard, or for names with other characters than these
	// (docs.gitlab.com/ci/yaml, artifacts:expose_as).
	if !slices.Contains(judge.Artifacts.Paths, "preflight.html") || strings.Contains(strings.Join(judge.Artifacts.Paths, ""), "*") ||
		!regexp.MustCompile(`^[\w ()-]+$`).MatchString(judge.Artifacts.ExposeAs) {
		t.Errorf("the merge request has no link to the page: %+v", judge.Artifacts)
	}
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "hostfile")
		d.golden(t, "", "")
		out, code := d.run(t, "bash", "-e", "-o", "pipefail", "-c", strings.Join(judge.Script, "\n"))
		if code != gate.code || !strings.Contains(out, "this launch") && !strings.Contains(out, "ready to launch") && !strings.Contains(out, "could not") {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
		if report := d.wrote(t, judge.Artifacts.Reports.JUnit); !strings.Contains(report, "<testsuites") {
			t.Errorf("%s: %s holds %q", name, judge.Artifacts.Reports.JUnit, report)
		}
		for _, path := range judge.Artifacts.Paths {
			d.wrote(t, path)
		}
	}
	drifted(t, "bash", "-e", "-o", "pipefail", "-c", strings.Join(judge.Script, "\n"))
}
