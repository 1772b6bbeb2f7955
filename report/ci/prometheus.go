// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"io"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/report"
)

// Prometheus writes the report in the text exposition format 0.0.4, for the textfile collector of
// node_exporter (a file that ends in .prom) or a push gateway. All metrics are gauges:
//
//	preflight_verdict{verdict}               1 for the run's verdict, 0 for the others
//	preflight_check{check,verdict}           1, with the verdict of the check
//	preflight_finding{check,node,verdict}    number of findings that name the node; node is ""
//	                                         for a finding that names none
//	preflight_waived{check,node,verdict}     the same for waived findings, with the verdict
//	                                         that does not count
//	preflight_node_reached{node}             1 if the agent answered, else 0
//	preflight_smoke_ops_per_second{node,rank}  rate of computing of a rank, with --smoke
//	preflight_smoke_bits_per_second{node,stage} rate of a rank's link in the last trial of a
//	                                         stage that passed
//	preflight_run_seconds                    how long the run took
//	preflight_last_run_timestamp_seconds     when it began; left out if a saved report
//	                                         does not say
//
// If preflight_last_run_timestamp_seconds is old, preflight no longer runs. The collector's own
// node_textfile_mtime_seconds only shows when the file was written, and preflight judge writes the
// file too.
func Prometheus(w io.Writer, r checks.Report) error {
	verdict := gauge("preflight_verdict", "Whether the launch can work: 1 for the verdict of the run, 0 for the others.")
	for _, v := range []checks.Verdict{checks.Pass, checks.Warn, checks.Fail, checks.Unknown} {
		add(verdict, oneIf(v == r.Verdict), "verdict", string(v))
	}
	check := gauge("preflight_check", "The verdict of each check over all nodes.")
	for _, one := range judgements(r) {
		add(check, 1, "check", one.Check, "verdict", string(one.Verdict))
	}
	finding := gauge("preflight_finding", "How many findings of a check name a node; an empty node means the whole launch.")
	countByNode(finding, r.Findings)
	waived := gauge("preflight_waived", "How many findings of a check that name a node the policy waives.")
	countByNode(waived, text.Map(r.Waived, func(w checks.Waived) checks.Finding { return w.Finding }))
	reached := gauge("preflight_node_reached", "Whether the agent answered on the node.")
	for _, same := range text.GroupBy(r.Nodes, func(node facts.Node) string { return node.Name }) {
		add(reached, oneIf(same.All[0].Reached), "node", same.Key)
	}
	computed := gauge("preflight_smoke_ops_per_second", "Operations per second that a rank computed under load in the smoke test.")
	carried := gauge("preflight_smoke_bits_per_second", "Bits per second over the link of each rank in the smoke test, in the last trial of a stage that passed.")
	for _, same := range text.GroupBy(report.Smoked(r.Nodes), func(node facts.Node) string { return node.Name }) {
		addSmoke(computed, carried, same.Key, same.All[0].Smoke)
	}
	seconds := gauge("preflight_run_seconds", "How long the run took.")
	add(seconds, r.Seconds)
	last := gauge("preflight_last_run_timestamp_seconds", "When the run began, in seconds since 1970.")
	if began, err := time.Parse(time.RFC3339, r.Began); err == nil {
		add(last, float64(began.Unix()))
	}
	for _, family := range []*dto.MetricFamily{verdict, check, finding, waived, reached, computed, carried, seconds, last} {
		if len(family.Metric) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return err
		}
	}
	return nil
}

func gauge(name, help string) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
}

// add adds one value. labels are pairs of name and value.
func add(family *dto.MetricFamily, value float64, labels ...string) {
	metric := &dto.Metric{Gauge: &dto.Gauge{Value: &value}}
	for i := 0; i < len(labels); i += 2 {
		metric.Label = append(metric.Label, &dto.LabelPair{Name: &labels[i], Value: proto.String(text.Escape(labels[i+1]))})
	}
	family.Metric = append(family.Metric, metric)
}

// countByNode adds one sample for each series, because Prometheus refuses a file that contains a
// series twice.
func countByNode(family *dto.MetricFamily, findings []checks.Finding) {
	type series struct{ check, node, verdict string }
	var all []series
	for _, f := range findings {
		nodes := f.Nodes
		if len(nodes) == 0 {
			nodes = []string{""}
		}
		for _, node := range nodes {
			all = append(all, series{f.Check, node, string(f.Verdict)})
		}
	}
	for _, same := range text.GroupBy(all, func(s series) series { return s }) {
		add(family, float64(len(same.All)), "check", same.Key.check, "node", same.Key.node, "verdict", same.Key.verdict)
	}
}

func addSmoke(computed, carried *dto.MetricFamily, node string, smoke *facts.Smoke) {
	for _, same := range text.GroupBy(smoke.Ranks, func(rank facts.SmokeRank) int { return rank.LocalRank }) {
		if rate := same.All[0].Rate; rate > 0 {
			add(computed, rate, "node", node, "rank", strconv.Itoa(same.Key))
		}
	}
	passed := slices.DeleteFunc(slices.Clone(smoke.Trials), func(trial facts.SmokeTrial) bool { return !trial.Passed || trial.Stage == facts.SmokeRail })
	for _, same := range text.GroupBy(passed, func(trial facts.SmokeTrial) facts.SmokeStage { return trial.Stage }) {
		add(carried, same.All[len(same.All)-1].Rate, "node", node, "stage", string(same.Key))
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
