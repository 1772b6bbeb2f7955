// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

var (
	kebab    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	sections = facts.Sections()
)

func TestCatalogueIsDocumented(t *testing.T) {
	met := map[string]bool{}
	for _, check := range Catalogue {
		if !kebab.MatchString(check.ID) {
			t.Errorf("%q is not kebab-case", check.ID)
		}
		if met[check.ID] {
			t.Errorf("%s is there twice", check.ID)
		}
		met[check.ID] = true
		if check.Severity != checks.Error && check.Severity != checks.Warning {
			t.Errorf("%s: severity %q", check.ID, check.Severity)
		}
		about := check.Text()
		if about.Title == "" {
			t.Errorf("%s.md is missing next to the Go file of the check, or has no title", check.ID)
			continue
		}
		for name, text := range map[string]string{"title": about.Title, "would see": about.WouldSee} {
			if strings.TrimSpace(text) == "" || strings.Contains(text, "\n") {
				t.Errorf("%s.md: the %s is not one paragraph: %q", check.ID, name, text)
			}
		}
		var headings []string
		for _, part := range about.Parts {
			headings = append(headings, part.Heading)
			last := part.Body[strings.LastIndexByte(part.Body, '\n')+1:]
			if !strings.HasSuffix(last, ".") && !strings.HasPrefix(last, "- ") {
				t.Errorf("%s.md: %q does not end with a full stop", check.ID, part.Heading)
			}
		}
		if !slices.Equal(headings[:min(3, len(headings))], checks.Headings[:3]) {
			t.Errorf("%s.md: the headings are %q, and the first three must be %q", check.ID, headings, checks.Headings[:3])
		}
		first, _, _ := strings.Cut(about.Title, " ")
		if unicode.IsUpper([]rune(first + " ")[0]) && strings.ToLower(first[1:]) == first[1:] {
			t.Errorf("%s: a title goes on after \"passes when\": %q", check.ID, about.Title)
		}
		if strings.HasSuffix(about.Title, ".") {
			t.Errorf("%s: a title has no full stop", check.ID)
		}
		if len(check.Needs) == 0 && !check.FromPolicy {
			t.Errorf("%s needs nothing, so it can never be unknown", check.ID)
		}
		for _, section := range check.Needs {
			if !slices.Contains(sections, section) {
				t.Errorf("%s needs %s, which nobody collects", check.ID, section)
			}
		}
	}
}

// TestEveryTextHasACheck finds pages whose check was removed or renamed.
func TestEveryTextHasACheck(t *testing.T) {
	files, err := filepath.Glob("../*/*.md")
	if err != nil || len(files) != len(Catalogue) {
		t.Errorf("%d texts for %d checks, %v", len(files), len(Catalogue), err)
	}
	for _, file := range files {
		if _, known := Lookup(strings.TrimSuffix(filepath.Base(file), ".md")); !known {
			t.Errorf("%s belongs to no check", file)
		}
	}
}

// TestEveryCheckHasFixtures compares the catalogue with the files in testdata.
func TestEveryCheckHasFixtures(t *testing.T) {
	known := map[string]bool{}
	for _, check := range Catalogue {
		known[check.ID] = true
		verdicts := map[checks.Verdict]bool{}
		for _, c := range fixturesOf(t, check.ID) {
			verdicts[c.verdict()] = true
		}
		if !verdicts[checks.Pass] || !verdicts[checks.Fail] && !verdicts[checks.Warn] || !verdicts[checks.Unknown] {
			t.Errorf("%s has fixtures for %v; it needs a pass, a fail or warn, and an unknown", check.ID, verdicts)
		}
	}
	archives, err := filepath.Glob(archivePath("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, archive := range archives {
		if !known[strings.TrimSuffix(filepath.Base(archive), ".txtar")] {
			t.Errorf("%s belongs to no check", archive)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, check := range Catalogue {
		if got, known := Lookup(check.ID); !known || got.ID != check.ID {
			t.Errorf("Lookup(%s) = %q, %v", check.ID, got.ID, known)
		}
	}
	if _, known := Lookup("no-such-check"); known {
		t.Error("a check that does not exist was found")
	}
}

// TestDependenciesComeFirst checks that every dependency is in the catalogue and is evaluated
// first.
func TestDependenciesComeFirst(t *testing.T) {
	place := map[string]int{}
	for at, i := range engine.InOrder(Catalogue) {
		place[Catalogue[i].ID] = at
	}
	if len(place) != len(Catalogue) {
		t.Errorf("%d of %d checks are evaluated", len(place), len(Catalogue))
	}
	for _, check := range Catalogue {
		for _, id := range check.DependsOn {
			before, known := place[id]
			if !known {
				t.Errorf("%s depends on %s, which is no check", check.ID, id)
			} else if before >= place[check.ID] {
				t.Errorf("%s depends on %s, which is evaluated after it", check.ID, id)
			}
		}
	}
}

func TestHealthyFleetIsHealthy(t *testing.T) {
	for _, n := range []int{1, 2, 4, 40} {
		report := judged(fleettest.Healthy(n), Catalogue...)
		if report.ExitCode != 0 || len(report.Findings) > 0 || len(report.Diff) > 0 {
			t.Errorf("%d nodes: verdict %s, findings %+v, diff %+v", n, report.Verdict, report.Findings, report.Diff)
		}
		for _, outcome := range report.Checks {
			if outcome.Verdict == checks.Unknown {
				t.Errorf("%d nodes: %s is unknown: %s", n, outcome.Check, outcome.Reason)
			}
		}
	}
}

// TestNotCovered checks that the report names what a run could not test without a launch command or
// without the number of ranks.
func TestNotCovered(t *testing.T) {
	const ranks, script = "GPUs, CPUs and memory for the ranks (-w NODE:8 gives a node 8 ranks); ", "the launch's script and what it imports (-- COMMAND); "
	const rest = "InfiniBand and RoCE traffic, GPU compute (--smoke); link speed (--throughput)"
	for _, c := range []struct {
		script string
		slots  []int
		want   string
	}{
		{"train.py", []int{0, 1}, rest},
		{"", []int{0, 1}, script + rest},
		{"", nil, ranks + script + rest},
	} {
		fleet := fleettest.Healthy(2)
		fleet.Launch.Script = c.script
		for i := range fleet.Launch.Hosts {
			fleet.Launch.Hosts[i].Slots = c.slots
		}
		if got := NotCovered(judged(fleet, Catalogue...).Checks); got != c.want {
			t.Errorf("%q with slots %v\n got %s\nwant %s", c.script, c.slots, got, c.want)
		}
	}
}
