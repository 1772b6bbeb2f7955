// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/facts"
	"preflight/report/ci"
)

// TestAlertRules checks that the rule files have only documented keys (prometheus.io, "Alerting
// rules") and that preflight writes every metric that the rules use.
func TestAlertRules(t *testing.T) {
	type rule struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	for path, metrics := range map[string]string{"prometheus/alerts.yml": metricsOf(t, faulty), "prometheus/smoke-alerts.yml": smokeMetrics(t, 6e14, 3e11)} {
		var file struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		strictly(t, path, &file)
		for _, rule := range file.Groups[0].Rules {
			if rule.Alert == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("a rule lacks a name, a severity or a summary: %+v", rule)
			}
			for _, name := range regexp.MustCompile(`preflight_\w+`).FindAllString(rule.Expr, -1) {
				if !strings.Contains("\n"+metrics, "\n# TYPE "+name+" gauge\n") {
					t.Errorf("%s asks for %s, which preflight does not write", rule.Alert, name)
				}
			}
		}
	}
}

// smokeMetrics returns the metrics of a smoke test of two nodes. w1 has the given rates, and w2 has
// half of these rates.
func smokeMetrics(t *testing.T, computed, carried float64) string {
	t.Helper()
	var r checks.Report
	for i, name := range []string{"w1", "w2"} {
		share := 1 / float64(1+i)
		r.Nodes = append(r.Nodes, facts.Node{Name: name, Facts: facts.Facts{Smoke: &facts.Smoke{
			Ranks:  []facts.SmokeRank{{Rate: share * computed}},
			Trials: []facts.SmokeTrial{{Stage: facts.SmokeOne, Nodes: 2, Ranks: 2, Passed: true, Rate: share * carried}},
		}}})
	}
	var metrics strings.Builder
	if err := ci.Prometheus(&metrics, r); err != nil {
		t.Fatal(err)
	}
	return metrics.String()
}

// TestSmokeAlerts lets Prometheus evaluate the rules over one week of constant rates, followed by
// one or two nights with other rates. The rules must compare a node with its own past, and one slow
// night must raise no alert.
func TestSmokeAlerts(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("NOT RUN: Prometheus over the alert rules, because there is no promtool: sh testhosts/apt.sh consumers installs it")
	}
	computes, reduces := []string{"PreflightComputesSlower w1", "PreflightComputesSlower w2"}, []string{"PreflightReducesSlower w1", "PreflightReducesSlower w2"}
	for name, c := range map[string]struct {
		computed, carried float64 // rates as a share of the earlier rates
		nights            int
		want              []string
	}{
		"as before":        {1, 1, 2, nil},
		"a little slower":  {0.91, 0.81, 2, nil},
		"computes slower":  {0.89, 1, 2, computes},
		"reduces slower":   {1, 0.79, 2, reduces},
		"both":             {0.5, 0.5, 2, append(slices.Clone(computes), reduces...)},
		"one night":        {0.5, 0.5, 1, nil},
		"faster than ever": {1.5, 1.5, 2, nil},
	} {
		now := map[string]string{}
		for line := range strings.Lines(smokeMetrics(t, c.computed*6e14, c.carried*3e11)) {
			if name, value, ok := sampled(line); ok {
				now[name] = value
			}
		}
		var input []series
		for line := range strings.Lines(smokeMetrics(t, 6e14, 3e11)) {
			if name, before, ok := sampled(line); ok && strings.HasPrefix(name, "preflight_smoke_") {
				input = append(input, series{name, fmt.Sprintf("%sx167 %sx%d", before, now[name], 24*c.nights)})
			}
		}
		at := fmt.Sprintf("%dh", 168+24*c.nights)
		if diff := cmp.Diff(c.want, evaluated(t, "prometheus/smoke-alerts.yml", "1h", at, input, "PreflightComputesSlower", "PreflightReducesSlower")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// metricsOf returns the metrics that preflight writes for a fleet.
func metricsOf(t *testing.T, f fleet) string {
	t.Helper()
	d := newDesk(t, f, "hosts")
	d.run(t, "/usr/bin/env", "preflight", "-H", "hosts", "-q", "--format", "prometheus", "-o", "metrics")
	return d.wrote(t, "metrics")
}

// TestAlerts lets Prometheus evaluate the rules over the metrics of several fleets.
func TestAlerts(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("NOT RUN: Prometheus over the alert rules, because there is no promtool: sh testhosts/apt.sh consumers installs it")
	}
	if out, err := exec.Command("promtool", "check", "rules", "prometheus/alerts.yml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		metrics string
		age     int // seconds since the file was written
		want    []string
	}{
		"faulty":  {metricsOf(t, faulty), 60, []string{"PreflightFails", "PreflightNodeFails w1", "PreflightNodeFails w2", "PreflightNodeFails w3", "PreflightNodeFails w5", "PreflightNodeFails w6", "PreflightNodeFails w7", "PreflightNodeFails w8"}},
		"healthy": {metricsOf(t, healthy), 60, nil},
		"dark":    {metricsOf(t, dark), 60, []string{"PreflightCannotTell"}},
		"stale":   {metricsOf(t, healthy), 7200, []string{"PreflightStale"}},
		"gone":    {"", 60, []string{"PreflightAbsent"}},
	} {
		if diff := cmp.Diff(c.want, alerts(t, c.metrics, c.age)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// alerts returns the alerts that fire after two hours of constant metrics, each with the node that
// it names. The test file expects no alerts, so promtool lists all alerts that fire.
func alerts(t *testing.T, metrics string, age int) (firing []string) {
	t.Helper()
	var input []series
	for line := range strings.Lines(metrics) {
		if name, value, ok := sampled(line); ok {
			input = append(input, series{name, value + "x120"})
		}
	}
	// promtool's clock starts at 0. The file was written age seconds before 0.
	written := fmt.Sprintf("%d+60x120", -age)
	input = append(input, series{`node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/preflight.prom"}`, written})
	return evaluated(t, "prometheus/alerts.yml", "1m", "2h", input, "PreflightFails", "PreflightNodeFails", "PreflightCannotTell", "PreflightStale", "PreflightAbsent")
}

// series is a time series as promtool reads it.
type series struct{ Series, Values string }

// sampled splits a line of metrics into name and value. ok is false for a comment line.
func sampled(line string) (name, value string, ok bool) {
	at := strings.LastIndex(line, " ")
	if at <= 0 || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	return line[:at], strings.TrimSpace(line[at:]), true
}

// evaluated returns the alerts that fire at a given time, each with the node that it names. Each
// series has one value for each interval.
func evaluated(t *testing.T, rules, interval, at string, input []series, names ...string) []string {
	t.Helper()
	var expected []map[string]any
	for _, name := range names {
		expected = append(expected, map[string]any{"eval_time": at, "alertname": name})
	}
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{absolute(t, rules)}, "evaluation_interval": interval,
		"tests": []map[string]any{{"interval": interval, "input_series": input, "alert_rule_test": expected}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tests.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("promtool", "test", "rules", path).CombinedOutput()
	labels := regexp.MustCompile(`Labels:\{alertname="(\w+)"(?:, node="(\w+)")?`).FindAllStringSubmatch(string(out), -1)
	if err != nil && labels == nil {
		t.Fatalf("promtool test rules: %v\n%s", err, out)
	}
	found := map[string]bool{}
	for _, label := range labels {
		found[strings.TrimSpace(label[1]+" "+label[2])] = true
	}
	return slices.Sorted(maps.Keys(found))
}
