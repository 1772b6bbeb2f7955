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
)

// TestAlertRules holds the file to the keys of a rule file (prometheus.io, "Alerting
// rules"), and what it asks to the metrics that there are.
func TestAlertRules(t *testing.T) {
	type rule struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	strictly(t, "prometheus/alerts.yml", &file)
	metrics := metricsOf(t, faulty)
	for _, rule := range file.Groups[0].Rules {
		if rule.Alert == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("a rule lacks a name, a severity or a summary: %+v", rule)
		}
		for _, name := range regexp.MustCompile(`preflight_\w+`).FindAllString(rule.Expr, -1) {
			if !strings.Contains(metrics, "\n# TYPE "+name+" gauge\n") {
				t.Errorf("%s asks for %s, which preflight does not write", rule.Alert, name)
			}
		}
	}
}

// metricsOf is what the textfile collector reads for a fleet.
func metricsOf(t *testing.T, f fleet) string {
	t.Helper()
	d := newDesk(t, f, "hosts")
	d.run(t, "/usr/bin/env", "preflight", "-H", "hosts", "-q", "--format", "prometheus", "-o", "metrics")
	return d.wrote(t, "metrics")
}

// TestAlerts has Prometheus itself evaluate the rules over the metrics of fleets.
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

// alerts are those that fire after two hours of metrics that stay the same, with the node
// they name. promtool tells what fires where nothing is expected to.
func alerts(t *testing.T, metrics string, age int) (firing []string) {
	t.Helper()
	type series struct{ Series, Values string }
	var input []series
	for line := range strings.Lines(metrics) {
		if at := strings.LastIndex(line, " "); at > 0 && !strings.HasPrefix(line, "#") {
			input = append(input, series{line[:at], strings.TrimSpace(line[at:]) + "x120"})
		}
	}
	// promtool's clock begins at 0: so does the file's, unless it was written before.
	written := fmt.Sprintf("%d+60x120", -age)
	input = append(input, series{`node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/preflight.prom"}`, written})
	var expected []map[string]any
	for _, name := range []string{"PreflightFails", "PreflightNodeFails", "PreflightCannotTell", "PreflightStale", "PreflightAbsent"} {
		expected = append(expected, map[string]any{"eval_time": "2h", "alertname": name})
	}
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{absolute(t, "prometheus/alerts.yml")},
		"tests":      []map[string]any{{"interval": "1m", "input_series": input, "alert_rule_test": expected}},
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
