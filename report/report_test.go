package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
)

var update = flag.Bool("update", false, "write the golden files anew")

func failing() checks.Report {
	return checks.Report{
		Schema: 1, Version: "v0", Verdict: checks.Fail, ExitCode: 1, Seconds: 0.42, Hostfile: "hostfile",
		Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1", Reached: true}, {Name: "w2", Reached: true}, {Name: "w3", Reached: true}, {Name: "w4"}}},
		Checks: []checks.Outcome{
			{Check: "ssh-reach", Verdict: checks.Fail, Severity: checks.Error},
			{Check: "ssh-login", Verdict: checks.Unknown, Severity: checks.Error, Reason: "w4 not reached"},
			{Check: "shm-size", Verdict: checks.Fail, Severity: checks.Error},
			{Check: "env-sane", Verdict: checks.Warn, Severity: checks.Warning},
			{Check: "python-same", Verdict: checks.Unknown, Severity: checks.Error, Reason: "python: no answer within 5s"},
			{Check: "torch-same", Verdict: checks.Unknown, Severity: checks.Error, Reason: "python: no answer within 5s"},
			{Check: "ib-links", Verdict: checks.Skip, Severity: checks.Error, Reason: "no node has InfiniBand"},
			{Check: "host-distinct", Verdict: checks.Pass, Severity: checks.Error},
		},
		Findings: []checks.Finding{
			{Check: "ssh-reach", Verdict: checks.Fail, Nodes: []string{"w4"}, Summary: "nothing listens on port 22", Got: "connection refused",
				Fix: []string{"ssh w4 (from its console): sudo systemctl start ssh"}, WouldSee: "w4: ssh: connect to host w4 port 22: Connection refused"},
			{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2", "w3"},
				Summary: "/dev/shm is too small for the ranks on this node, so NCCL cannot make its shared memory segments",
				Got:     "64 MiB", Want: "at least 517 MiB: 8 ranks × 1 communicator × 32.6 MiB (NCCL 2.28-2.30) + 256 MiB headroom",
				Fix:      []string{"pdsh -R ssh -w 'w[2-3]' 'sudo mount -o remount,size=16G /dev/shm'", "docker run --shm-size=16g …"},
				WouldSee: "Error: failed to extend /dev/shm/nccl-AbCdEf to 34210180 bytes, error: No space left on device (28)"},
			{Check: "python-same", Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "python: no answer within 5s"},
			{Check: "torch-same", Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "python: no answer within 5s"},
			{Check: "env-sane", Verdict: checks.Warn, Nodes: []string{"w1", "w2", "w3", "w4"}, Summary: "a hostile \x1b[31mvalue\u202e and\ttab",
				Fix: []string{"unset X\x07"}},
		},
		Diff: []checks.FactDiff{
			{Fact: "shm.size", Groups: []checks.FactGroup{
				{Value: json.RawMessage("17179869184"), Nodes: []string{"w1"}}, {Value: json.RawMessage("67108864"), Nodes: []string{"w2", "w3"}}}},
			{Fact: "python.packages.protobuf", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`"3.20.1"`), Nodes: []string{"w1", "w2"}}, {Value: nil, Nodes: []string{"w3"}}}},
			{Fact: "net.interfaces.eth0.speed", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`100000000000`), Nodes: []string{"w1", "w2"}}, {Value: json.RawMessage(`1000000000`), Nodes: []string{"w3"}}}},
			{Fact: "limits.memlock.soft", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`-1`), Nodes: []string{"w1", "w2"}}, {Value: json.RawMessage(`65536`), Nodes: []string{"w3"}}}},
		},
	}
}

func passing() checks.Report {
	return checks.Report{
		Schema: 1, Verdict: checks.Pass, Seconds: 0.3, Hostfile: "hostfile",
		Fleet:  facts.Fleet{Nodes: []facts.Node{{Name: "w1", Reached: true}}},
		Checks: []checks.Outcome{{Check: "ssh-reach", Verdict: checks.Pass}, {Check: "ib-links", Verdict: checks.Skip, Reason: "no node has InfiniBand"}},
	}
}

// wired is a run in which nodes called each other: one was not called back, and
// so did not see the whole world.
func wired() checks.Report {
	r := passing()
	r.Nodes = nil
	for i, name := range []string{"w1", "w2", "w3"} {
		node := facts.Node{Name: name, Reached: true}
		node.Mesh = &facts.Mesh{Interface: "eth0", Address: "10.0.0." + name[1:], Reached: map[string]float64{name: 0.0001, "w1": 0.002, "w2": 0.0031}}
		node.Rendezvous = &facts.Rendezvous{Endpoint: "10.0.0.1:29500", Joined: 0.001 * float64(i+1), Complete: 0.004}
		node.Throughput = &facts.Throughput{Peer: "w1", Interface: "eth0", Rate: 9.4e9}
		r.Nodes = append(r.Nodes, node)
	}
	r.Nodes[1].Mesh.Failed = []facts.Path{{Peer: "w3", Outcome: facts.PathDropped}}
	for i := range r.Nodes {
		r.Nodes[i].Rendezvous.Failed, r.Nodes[i].Rendezvous.Complete = facts.HopWait, 0
	}
	r.Nodes[2].Rendezvous.Joined = 0
	r.Findings = []checks.Finding{{Check: "node-mesh", Verdict: checks.Fail, Nodes: []string{"w3"}, Summary: "cannot be reached", Fix: []string{"ssh w3 true"}}}
	r.Advice = checks.Advice{Env: []checks.AdvisedEnv{{Name: "NCCL_SOCKET_IFNAME", Value: "eth0", Why: "6 of 6 pairs answered on eth0"}}, Args: []string{"--master_addr=10.0.0.1"}, Program: "deepspeed"}
	return r
}

func TestText(t *testing.T) {
	interrupted := failing()
	interrupted.Interrupted = true
	for name, c := range map[string]struct {
		report checks.Report
		style  Style
	}{
		"failing":     {failing(), Style{}},
		"narrow":      {failing(), Style{Width: 56}},
		"color":       {failing(), Style{Color: true}},
		"verbose":     {failing(), Style{Verbose: true, Width: 160}},
		"quiet":       {failing(), Style{Quiet: true}},
		"interrupted": {interrupted, Style{Quiet: true}},
		"passing":     {passing(), Style{}},
		"wire":        {wired(), Style{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Text(&got, c.report, c.style); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", got.Bytes())
			if !c.style.Color && bytes.ContainsRune(got.Bytes(), '\x1b') {
				t.Error("an escape sequence got through")
			}
			for line := range strings.Lines(got.String()) {
				width := c.style.Width
				if width == 0 {
					width = 100
				}
				isCommand := strings.Contains(line, "pdsh") || strings.Contains(line, "ssh w4")
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width && !isCommand && !c.style.Color {
					t.Errorf("%d columns on a page of %d: %q", n, width, line)
				}
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), go test ./report -update writes it anew:\n%s", path, diff)
	}
}

func TestLongListsShowWhatTheOthersLack(t *testing.T) {
	long := `["/usr/lib/python311.zip","/usr/lib/python3.11","/usr/lib/python3.11/lib-dynload"`
	r := checks.Report{Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w3"}}}, Diff: []checks.FactDiff{{Fact: "python.sys_path", Groups: []checks.FactGroup{
		{Value: json.RawMessage(long + "]"), Nodes: []string{"w1", "w2"}},
		{Value: json.RawMessage(long + `,"/root/.local/lib"]`), Nodes: []string{"w3"}},
	}}}}
	var out bytes.Buffer
	if err := Text(&out, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if want := "python.sys_path  without those (w[1-2])  with /root/.local/lib (w3)"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in:\n%s", want, out.String())
	}
}

func TestJSONIsReadBack(t *testing.T) {
	want := failing()
	want.Advice = checks.Advice{Env: []checks.AdvisedEnv{}, Args: []string{}}
	want.Nodes[0].SHM = &facts.SHM{Size: 5, Segments: []facts.Segment{{Name: "nccl-\u009b31m"}}}
	var out bytes.Buffer
	if err := JSON(&out, want); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r == 0x1b || r >= 0x7f && r < 0xa0 || r == '\u202e' {
			t.Fatalf("JSON holds the raw control character %U", r)
		}
	}
	got, err := Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	// A fact nobody has is null in JSON and comes back as the word.
	want.Diff[1].Groups[1].Value = json.RawMessage("null")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValue(t *testing.T) {
	for _, test := range []struct{ fact, value, want string }{
		{"shm.size", "67108864", "64 MiB"},
		{"net.interfaces.eth0.speed", "100000000000", "100 Gbit/s"},
		{"net.interfaces.eth0.mtu", "9000", "9000"},
		{"limits.nofile.soft", "-1", "unlimited"},
		{"ib.devices.mlx5_0.numa_node", "-1", "-1"},
		{"python.sys_path", `["/a","/b"]`, "/a, /b"},
		{"python.found", "true", "true"},
		{"shm.write_error", `""`, `""`},
		{"shm.mode", "null", "absent"},
		{"shm.mode", "", "absent"},
		{"host.os", `"a\u001b[2Jb"`, `a\x1b[2Jb`},
	} {
		if got := Value(test.fact, json.RawMessage(test.value)); got != test.want {
			t.Errorf("Value(%s, %s) = %q, want %q", test.fact, test.value, got, test.want)
		}
	}
}

func TestCatalogueFitsThePage(t *testing.T) {
	list := []checks.Check{
		{ID: "a-check", Title: "it is", Severity: checks.Error},
		{ID: "another-check", Title: strings.Repeat("many words ", 20) + "end", Severity: checks.Warning},
	}
	var out bytes.Buffer
	if err := Catalogue(&out, list, Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		if len(line) > 60 {
			t.Errorf("%d columns on a page of 60: %q", len(line), line)
		}
	}
	if want := "a-check        error    it is"; lines[1] != want {
		t.Errorf("got  %q\nwant %q", lines[1], want)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, strings.Repeat(" ", 24)) || !strings.HasSuffix(last, "end") {
		t.Errorf("a long title goes on below itself, got %q", last)
	}
}

func TestReadRefusesOtherSchemas(t *testing.T) {
	for _, text := range []string{"", "{", `{"schema":2}`, `[]`, `{"schema":"1"}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%q) took it for a report", text)
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain — ünïcode": "plain — ünïcode",
		"\x1b[2J":         `\x1b[2J`,
		"a\tb\nc\x00":     `a b\x0ac\x00`,
		"\u009b31m":       `\x9b31m`,
		"abc\u202edef":    `abc\u202edef`,
		"\u200bhidden":    `\u200bhidden`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestGoneNodes: as many nodes as the fleet has, of which one is not in it, are not all.
func TestGoneNodes(t *testing.T) {
	r := checks.Report{Verdict: checks.Fail, ExitCode: 1, Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w3"}}}}
	r.Findings = []checks.Finding{
		{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w7", "w8", "w9"}, Summary: "gone"},
		{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w1", "w2", "w3"}, Summary: "small"},
	}
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"text": func(w io.Writer, r checks.Report) error { return Text(w, r, Style{}) }, "junit": JUnit,
		"markdown": MarkdownSummary, "github": GitHub, "nagios": Nagios, "html": HTML,
	} {
		text := rendered(t, render, r)
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, "&#91;", "["), "&#93;", "]"), "w[7-9]") || !strings.Contains(text, "all 3 nodes") {
			t.Errorf("%s: w[7-9] and all 3 nodes are not told apart:\n%.2000s", name, text)
		}
	}
}
