package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"preflight/checks"
)

// prometheusStart is how our metrics begin; [Wrote] knows them by that.
const prometheusStart = "# HELP preflight_verdict "

// Prometheus writes the report in the text exposition format 0.0.4, for the textfile
// collector of node_exporter (a file that ends in .prom) or a push gateway. All are
// gauges:
//
//	preflight_verdict{verdict}               1 for the run's verdict, 0 for the others
//	preflight_check{check,verdict}           1, with the verdict of the check
//	preflight_finding{check,node,verdict}    how many findings name the node; node is "" for
//	                                         one that names none
//	preflight_waived{check,node,verdict}     the same of those that are waived, with the
//	                                         verdict that does not count
//	preflight_node_reached{node}             1 where the agent answered, else 0
//	preflight_run_seconds                    how long the run took
//	preflight_last_run_timestamp_seconds     when it began; left out where a saved report
//	                                         does not tell
//
// What does not run any more shows by the last one; the collector's own
// node_textfile_mtime_seconds is when the file was written, by preflight judge too.
func Prometheus(w io.Writer, r checks.Report) error {
	m := &metrics{}
	m.family("preflight_verdict", "Whether the launch can work: 1 for the verdict of the run, 0 for the others.")
	for _, v := range []checks.Verdict{checks.Pass, checks.Warn, checks.Fail, checks.Unknown} {
		m.sample(oneIf(v == r.Verdict), "verdict", string(v))
	}
	m.family("preflight_check", "The verdict of each check over all nodes.")
	for _, one := range judgements(r) {
		m.sample("1", "check", one.Check, "verdict", string(one.Verdict))
	}
	m.family("preflight_finding", "How many findings of a check name a node; no node is the launch as a whole.")
	m.findings(r.Findings)
	if len(r.Waived) > 0 {
		m.family("preflight_waived", "How many findings of a check that name a node are waived by the policy.")
		var waived []checks.Finding
		for _, w := range r.Waived {
			waived = append(waived, w.Finding)
		}
		m.findings(waived)
	}
	m.family("preflight_node_reached", "Whether the agent answered on the node.")
	reached := map[string]bool{}
	for _, node := range r.Nodes {
		if _, twice := reached[node.Name]; !twice {
			m.sample(oneIf(node.Reached), "node", node.Name)
		}
		reached[node.Name] = true
	}
	m.family("preflight_run_seconds", "How long the run took.")
	m.sample(strconv.FormatFloat(r.Seconds, 'g', -1, 64))
	if began, err := time.Parse(time.RFC3339, r.Began); err == nil {
		m.family("preflight_last_run_timestamp_seconds", "When the run began, in seconds since 1970.")
		m.sample(strconv.FormatInt(began.Unix(), 10))
	}
	_, err := io.WriteString(w, m.out.String())
	return err
}

// metrics is the text as it grows.
type metrics struct {
	out  strings.Builder
	name string // of the family that is written
}

func (m *metrics) family(name, help string) {
	m.name = name
	fmt.Fprintf(&m.out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

// sample writes one value, labels as pairs of name and value.
func (m *metrics) sample(value string, labels ...string) {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+labelValue(labels[i+1])+`"`)
	}
	text := strings.Join(pairs, ",")
	if text != "" {
		text = "{" + text + "}"
	}
	fmt.Fprintf(&m.out, "%s%s %s\n", m.name, text, value)
}

// findings writes one sample a series: a series that came twice would make Prometheus
// refuse the whole file.
func (m *metrics) findings(findings []checks.Finding) {
	type series struct {
		check, node string
		verdict     checks.Verdict
	}
	count := map[series]int{}
	var order []series
	for _, f := range findings {
		nodes := f.Nodes
		if len(nodes) == 0 {
			nodes = []string{""}
		}
		for _, node := range nodes {
			s := series{f.Check, node, f.Verdict}
			if count[s] == 0 {
				order = append(order, s)
			}
			count[s]++
		}
	}
	for _, s := range order {
		m.sample(strconv.Itoa(count[s]), "check", s.check, "node", s.node, "verdict", string(s.verdict))
	}
}

// labelValue escapes what ends a label's value, after what no terminal should be shown.
func labelValue(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(Escape(text))
}

func oneIf(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}
