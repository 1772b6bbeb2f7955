// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/internal/text"
	"preflight/testhosts/reporttest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series reads metrics as Prometheus does and returns them sorted, in the form name{label="value"}
// value. The test fails if a series occurs twice.
func series(t *testing.T, text string) []string {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	var all []string
	for name, family := range families {
		if family.GetType().String() != "GAUGE" || family.GetHelp() == "" {
			t.Errorf("%s is a %s with help %q", name, family.GetType(), family.GetHelp())
		}
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, fmt.Sprintf("%s=%s", label.GetName(), label.GetValue()))
			}
			all = append(all, fmt.Sprintf("%s{%s}", name, strings.Join(labels, ",")))
			if metric.TimestampMs != nil {
				t.Errorf("%s has a timestamp, which the textfile collector refuses", name)
			}
			all[len(all)-1] += fmt.Sprintf(" %g", metric.Gauge.GetValue())
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		before, _, _ := strings.Cut(all[i-1], "} ")
		if strings.HasPrefix(all[i], before+"} ") {
			t.Errorf("this series comes twice: %s", all[i])
		}
	}
	return all
}

func TestPrometheus(t *testing.T) {
	r := reporttest.Waiving()
	r.Findings = r.Findings[:len(r.Findings)-1]
	r.Findings = append(r.Findings, r.Findings[1], r.Findings[0])
	r.Findings[len(r.Findings)-1].Nodes = nil
	text := reporttest.Rendered(t, Prometheus, r)
	reporttest.Golden(t, "prometheus.txt", []byte(text))
	want := []string{
		"preflight_check{check=env-sane,verdict=warn} 1",
		"preflight_check{check=host-distinct,verdict=pass} 1",
		"preflight_check{check=ib-links,verdict=skip} 1",
		"preflight_check{check=path-mtu,verdict=skip} 1",
		"preflight_check{check=python-same,verdict=unknown} 1",
		"preflight_check{check=shm-size,verdict=fail} 1",
		"preflight_check{check=ssh-login,verdict=unknown} 1",
		"preflight_check{check=ssh-reach,verdict=fail} 1",
		"preflight_check{check=torch-same,verdict=unknown} 1",
		"preflight_finding{check=env-sane,node=w1,verdict=warn} 1",
		"preflight_finding{check=env-sane,node=w2,verdict=warn} 1",
		"preflight_finding{check=env-sane,node=w3,verdict=warn} 1",
		"preflight_finding{check=env-sane,node=w4,verdict=warn} 1",
		"preflight_finding{check=python-same,node=w1,verdict=unknown} 1",
		"preflight_finding{check=shm-size,node=w2,verdict=fail} 2",
		"preflight_finding{check=shm-size,node=w3,verdict=fail} 2",
		"preflight_finding{check=ssh-reach,node=,verdict=fail} 1",
		"preflight_finding{check=ssh-reach,node=w4,verdict=fail} 1",
		"preflight_finding{check=torch-same,node=w1,verdict=unknown} 1",
		"preflight_last_run_timestamp_seconds{} 1.7952888e+09",
		"preflight_node_reached{node=w1} 1",
		"preflight_node_reached{node=w2} 1",
		"preflight_node_reached{node=w3} 1",
		"preflight_node_reached{node=w4} 0",
		"preflight_run_seconds{} 0.42",
		"preflight_verdict{verdict=fail} 1",
		"preflight_verdict{verdict=pass} 0",
		"preflight_verdict{verdict=unknown} 0",
		"preflight_verdict{verdict=warn} 0",
		"preflight_waived{check=path-mtu,node=w2,verdict=warn} 1",
		"preflight_waived{check=path-mtu,node=w3,verdict=warn} 1",
		"preflight_waived{check=shm-size,node=w1,verdict=fail} 1",
	}
	if diff := cmp.Diff(want, series(t, text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrometheusSmoke checks that a rank without a rate and a stage without a passed trial have no
// series, and that the last passed trial of a stage counts.
func TestPrometheusSmoke(t *testing.T) {
	r := reporttest.Isolated()
	passed := facts.SmokeTrial{Stage: facts.SmokePair, Nodes: 2, With: []string{"w2"}, Ranks: 16, Passed: true, Rate: 1.6e11}
	r.Nodes[0].Smoke.Trials = append(r.Nodes[0].Smoke.Trials, passed)
	for i := range r.Nodes {
		r.Nodes[i].Smoke.Ranks = r.Nodes[i].Smoke.Ranks[4:6] // these include the rank of w4 that did not compute
	}
	want := []string{
		"preflight_smoke_bits_per_second{node=w1,stage=pair} 1.6e+11",
		"preflight_smoke_bits_per_second{node=w2,stage=pair} 1.7e+11",
		"preflight_smoke_ops_per_second{node=w1,rank=4} 5.96e+14",
		"preflight_smoke_ops_per_second{node=w1,rank=5} 5.95e+14",
		"preflight_smoke_ops_per_second{node=w2,rank=4} 5.95e+14",
		"preflight_smoke_ops_per_second{node=w2,rank=5} 5.94e+14",
		"preflight_smoke_ops_per_second{node=w3,rank=4} 5.94e+14",
		"preflight_smoke_ops_per_second{node=w3,rank=5} 5.93e+14",
		"preflight_smoke_ops_per_second{node=w4,rank=4} 5.93e+14",
	}
	got := slices.DeleteFunc(series(t, reporttest.Rendered(t, Prometheus, r)), func(one string) bool {
		return !strings.HasPrefix(one, "preflight_smoke_")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrometheusHostile checks that a hostile node name remains the value of one label.
func TestPrometheusHostile(t *testing.T) {
	want := fmt.Sprintf("preflight_node_reached{node=%s} 1", text.Escape(reporttest.Evil))
	if all := series(t, reporttest.Rendered(t, Prometheus, reporttest.Hostile())); !slices.Contains(all, want) {
		t.Errorf("no %s in:\n%s", want, strings.Join(all, "\n"))
	}
}

func TestPrometheusTakesEveryRun(t *testing.T) {
	for name, r := range reporttest.Cases() {
		if all := series(t, reporttest.Rendered(t, Prometheus, r)); len(all) < 6 {
			t.Errorf("%s has %d series", name, len(all))
		}
	}
}
