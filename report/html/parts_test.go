// SPDX-License-Identifier: Apache-2.0

package html

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/report"
	"preflight/testhosts/reporttest"
)

// TestMatrixSaysNoMoreThanTheReport checks the verdict of a node that no finding names. The node
// passes only if the whole check passes, and it is unknown if its facts are missing.
func TestMatrixSaysNoMoreThanTheReport(t *testing.T) {
	seen := facts.Facts{SHM: &facts.SHM{}, Python: &facts.Python{}}
	r := checks.Report{
		Fleet: facts.Fleet{Nodes: []facts.Node{
			{Name: "w1", Reached: true, Facts: seen}, {Name: "w2", Reached: true, Facts: seen}, {Name: "w3", Reached: true, Facts: facts.Facts{SHM: &facts.SHM{}}}, {Name: "w4"},
		}},
		Checks: []checks.Outcome{
			{Check: "shm-size", Verdict: checks.Fail}, {Check: "torch-same", Verdict: checks.Unknown}, {Check: "shm-writable", Verdict: checks.Pass},
			{Check: "ib-links", Verdict: checks.Skip}, {Check: "launcher-ready", Verdict: checks.Fail},
			{Check: "policy", Verdict: checks.Fail}, {Check: "ssh-reach", Verdict: checks.Skip, Reason: checks.AllWaived},
		},
		Waived: []checks.Waived{
			{Finding: checks.Finding{Check: "ssh-reach", Verdict: checks.Fail, Nodes: []string{"w4"}}},
			{Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2", "w3"}}},
		},
		Findings: []checks.Finding{
			{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2"}}, {Check: "shm-size", Verdict: checks.Warn, Nodes: []string{"w2"}},
			{Check: "torch-same", Verdict: checks.Unknown, Nodes: []string{"w3"}, Summary: "python: no answer"}, {Check: "launcher-ready", Verdict: checks.Fail},
			{Check: "policy", Verdict: checks.Fail},
		},
	}
	d := newPageData(r)
	rows := map[string]string{}
	for _, row := range d.Rows {
		rows[row.Label] = row.Cells
	}
	want := map[string]string{"launching machine": "oooofoo", "policy": "ooooofo", "w1": "cnpsoou", "w2": "fnpsoou", "w3": "vupsoou", "w4": "uuusoov"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("node → cells (-want +got):\n%s", diff)
	}
	marks := []matrixMark{{0, []int{1}, "finding-1"}, {0, []int{1}, "finding-2"}, {1, []int{2}, "unknown-1"}, {4, []int{}, "finding-4"}, {5, []int{}, "finding-5"}, {6, []int{3}, "waived-1"}, {0, []int{1, 2}, "waived-2"}}
	if diff := cmp.Diff(marks, d.Marks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRowsThatAreAlikeAreOne(t *testing.T) {
	nodes := []facts.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w3"}}
	got := foldRows(nodes, [][]byte{[]byte("pf"), []byte("pp"), []byte("pf")})
	want := []matrixRow{{Label: "w[1,3]", Nodes: []int{0, 2}, Cells: "pf"}, {Label: "w2", Nodes: []int{1}, Cells: "pp"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestASplitBlamesNobody checks that nodes are odd only if their value is less frequent than
// another value.
func TestASplitBlamesNobody(t *testing.T) {
	group := func(value string, nodes ...string) checks.FactGroup {
		return checks.FactGroup{Value: json.RawMessage(value), Nodes: nodes}
	}
	diffs := []checks.FactDiff{
		{Fact: "host.kernel", Groups: []checks.FactGroup{group(`"6.1"`, "w1", "w2"), group(`"6.8"`, "w3", "w4")}},
		{Fact: "shm.size", Groups: []checks.FactGroup{group("1024", "w1", "w2", "w3"), group("null", "w4")}},
	}
	words := report.WordsOf(checks.Report{Fleet: facts.Fleet{Nodes: make([]facts.Node, 4)}})
	odd := map[string]bool{}
	for _, d := range differences(words, diffs) {
		for _, w := range d.Ways {
			odd[d.Fact+" "+w.Value] = w.Odd
		}
		last := d.Bar[len(d.Bar)-1]
		if last.X+last.Width != 1000 {
			t.Errorf("%s: the bar ends at %d", d.Fact, last.X+last.Width)
		}
	}
	want := map[string]bool{"host.kernel 6.1": false, "host.kernel 6.8": false, "shm.size 1.0 KiB": false, "shm.size absent": true}
	if diff := cmp.Diff(want, odd); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ones, more := oddOnes(words, diffs)
	if diff := cmp.Diff([]oddNodes{{Nodes: set{Names: "w4"}, Facts: "1 fact", Count: 1}}, ones); diff != "" || more != 0 {
		t.Errorf("%d more, (-want +got):\n%s", more, diff)
	}
}

// TestTimeLineOfMany checks that the first and the last nodes to join have separate rows, and that
// the other nodes share one row.
func TestTimeLineOfMany(t *testing.T) {
	var joined []report.Attendance
	for i := range 40 {
		joined = append(joined, report.Attendance{Node: fmt.Sprint("w", i), Rendezvous: &facts.Rendezvous{Joined: float64(40-i) / 1000, Complete: 0.05}})
	}
	rows := timeline(report.WordsOf(checks.Report{Fleet: facts.Fleet{Nodes: make([]facts.Node, 40)}}), joined, 0.05)
	if len(rows) != mostJoined {
		t.Fatalf("%d rows", len(rows))
	}
	got := []joinedNodes{rows[0], rows[3], rows[15]}
	want := []joinedNodes{
		{Nodes: set{Names: "w39"}, JoinedX: 20, WholeX: 1000, Joined: "1 ms", Whole: "50 ms"},
		{Nodes: set{Names: "w[12-36]", Count: "25 of 40 nodes"}, JoinedX: 560, WholeX: 1000, Joined: "4 ms to 28 ms", Whole: "50 ms"},
		{Nodes: set{Names: "w0"}, JoinedX: 800, WholeX: 1000, Joined: "40 ms", Whole: "50 ms"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHops(t *testing.T) {
	for _, c := range []struct {
		failed facts.Hop
		serves bool
		want   string
	}{
		{facts.HopConnect, false, "[{resolve passed} {connect failed} {validate untried} {join untried} {wait untried}]"},
		{facts.HopServe, true, "[{serve failed} {resolve untried} {connect untried} {validate untried} {join untried} {wait untried}]"},
		{"teleport", false, "[{teleport failed}]"},
	} {
		if got := fmt.Sprint(hopsTo(c.failed, c.serves)); got != c.want {
			t.Errorf("%s: %s, not %s", c.failed, got, c.want)
		}
	}
}

// TestDrawing checks that a connection between all GPUs is one bus, that other connections are
// arcs, and that an adapter is below its nearest GPUs.
func TestDrawing(t *testing.T) {
	node := &reporttest.Fabric().Nodes[0]
	all := draw(node, reporttest.Fabric().Interconnect[0].Between)
	if all.Title != "2 GPUs, NVLink: NV18 between all 2 GPUs, 1 network adapter" || len(all.Arcs) != 0 || len(all.Sockets) != 2 {
		t.Errorf("%q, %d arcs, %d NUMA nodes", all.Title, len(all.Arcs), len(all.Sockets))
	}
	if len(all.Lines) != 4 { // lines from NVLink to each GPU, from the adapter to its GPU, and from the adapter to the network
		t.Errorf("%d lines: %+v", len(all.Lines), all.Lines)
	}
	near := line{X1: all.Cards[0].Middle(), X2: all.Adapters[0].Middle(), Y1: all.Lines[2].Y1, Y2: all.Adapters[0].Y}
	if diff := cmp.Diff(near, all.Lines[2]); diff != "" {
		t.Errorf("the adapter is behind the switch of GPU 0 (-want +got):\n%s", diff)
	}
	node.NVML.Cards = append(node.NVML.Cards, facts.Card{Index: 2, Failure: &facts.NVMLFailure{}})
	node.NVML.Topology = [][]string{{"X", "NV4", "SYS"}, {"NV4", "X", "SYS"}, {"SYS", "SYS", "X"}}
	some := draw(node, reporttest.Fabric().Interconnect[0].Between)
	if len(some.Arcs) != 1 || some.Arcs[0].Label != "NV4" || some.Cards[2].Class != "card broken" {
		t.Errorf("arcs %+v, the third GPU is a %q", some.Arcs, some.Cards[2].Class)
	}
	for _, b := range append(append(some.Cards, some.Adapters...), some.Buses...) {
		if b.X < 0 || b.Y < 0 || b.X+b.Width > some.Width || b.Y+b.Height > some.Height {
			t.Errorf("%+v is outside of %d × %d", b, some.Width, some.Height)
		}
	}
}

// TestALongListIsPresent checks that a long value that the other nodes lack is shown as present.
func TestALongListIsPresent(t *testing.T) {
	long := json.RawMessage(`["` + strings.Repeat("x", longestCell+1) + `"]`)
	d := checks.FactDiff{Fact: "nvml.topology", Groups: []checks.FactGroup{{Value: long, Nodes: []string{"w1", "w2"}}, {Nodes: []string{"w3"}}}}
	if got := cellText(d, 0) + ", " + cellText(d, 1); got != "present, absent" {
		t.Errorf("%q", got)
	}
}

// TestSmokeShowsWhoFailed checks that pairs are shown in both directions and that untried pairs are
// empty. If there are many nodes, the slowest must be shown.
func TestSmokeShowsWhoFailed(t *testing.T) {
	s := newSmoke(reporttest.Isolated().Nodes)
	if s.Bars[0].Node != "w4" || s.Bars[0].Rate != "" || s.Bars[0].X != 0 {
		t.Errorf("first bar %+v, want that of w4, which has a rank that computed nothing", s.Bars[0])
	}
	var rows []string
	for _, row := range s.Pairs.Rows {
		text := row.Node
		for _, cell := range row.Cells {
			text += " " + cell.Class
		}
		rows = append(rows, text)
	}
	if diff := cmp.Diff([]string{"w1 s p f s", "w2 p s f s", "w3 f f s s", "w4 s s s s"}, rows); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	many := reporttest.Isolated().Nodes
	for i := range 1000 {
		node := reporttest.Smoked().Nodes[0]
		node.Name = fmt.Sprintf("x%d", i)
		many = append([]facts.Node{node}, many...)
	}
	s = newSmoke(many)
	if len(s.Bars) != mostBars || s.More != 1004-mostBars || len(s.Pairs.Rows) != mostPaired || s.Pairs.Rows[2].Node != "w3" {
		t.Errorf("%d bars and %d more, %d rows of pairs, the third %s", len(s.Bars), s.More, len(s.Pairs.Rows), s.Pairs.Rows[2].Node)
	}
}
