// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/maruel/natural"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/hostfile"
)

func sampleSnapshot(uptime float64) checks.Report {
	var r checks.Report
	r.Schema, r.Version, r.Seconds, r.Hostfile = checks.Schema, "v9", uptime, "hostfile"
	for _, name := range []string{"w10", "w2"} {
		r.Launch.Hosts = append(r.Launch.Hosts, hostfile.Host{Name: name})
		r.Nodes = append(r.Nodes, facts.Node{
			Name: name, Address: "10.0.0.1", Reached: true, Facts: facts.Facts{
				Host: &facts.Host{Kernel: "6.1\u202e", BootID: "b", Uptime: uptime}, Clock: &facts.Clock{Offset: uptime},
				SHM: &facts.SHM{Size: 1 << 30, Free: int64(uptime)}, Net: &facts.Net{Listening: []facts.Listener{{Port: 29500, PID: 4711}}},
				SSH: &facts.SSH{Port: 22, Path: "/cache/preflight-v9"},
			},
			Missing: map[facts.Section]string{facts.SectionMesh: "took 3 s", facts.SectionIB: "denied"},
		})
	}
	return r
}

func TestNormalized(t *testing.T) {
	var first, second bytes.Buffer
	for out, uptime := range map[*bytes.Buffer]float64{&first: 1, &second: 2} {
		if err := Normalized(out, sampleSnapshot(uptime)); err != nil {
			t.Fatal(err)
		}
	}
	text := first.String()
	if diff := cmp.Diff(text, second.String()); diff != "" {
		t.Errorf("two looks differ (-first +second):\n%s", diff)
	}
	for _, left := range []string{"uptime", "free", "clock", "4711", "v9", "boot_id", "mesh", "seconds", "findings", "\u202e"} {
		if strings.Contains(text, left) {
			t.Errorf("%q is in it:\n%s", left, text)
		}
	}
	if strings.Index(text, `"w2",`) > strings.LastIndex(text, `"w10",`) {
		t.Errorf("w2 does not come before w10:\n%s", text)
	}
	back, err := Read(&first)
	if err != nil {
		t.Fatal(err)
	}
	whole := sampleSnapshot(3)
	if changes := agreement.Changes(whole.Fleet, back.Fleet); len(changes) > 0 {
		t.Errorf("read back it differs: %v", changes)
	}
	if back.Interrupted {
		t.Error("it was not interrupted")
	}
	if !back.Normalized || back.Nodes[0].Name != "w10" || back.NotTried[facts.SectionMesh] == "" {
		t.Errorf("normalized %t, first node %s, mesh %q", back.Normalized, back.Nodes[0].Name, back.NotTried[facts.SectionMesh])
	}
	if diff := cmp.Diff(whole.Launch, back.Launch); diff != "" {
		t.Errorf("the launch (-whole +back):\n%s", diff)
	}
}

// TestNormalizedElsewhere checks that launching from another directory or shell changes no byte,
// because it changes no node.
func TestNormalizedElsewhere(t *testing.T) {
	from := func(directory, debug string) string {
		r := sampleSnapshot(1)
		variable := facts.Setting{Name: "NCCL_DEBUG", Value: debug, Source: "environment"}
		r.Launch.WorkDir, r.Launch.Exports, r.Launch.Command = directory, []facts.Setting{variable}, []string{"cd", directory}
		r.Head = &facts.Node{Name: "launching machine", Reached: true, Facts: facts.Facts{
			Host: &facts.Host{MachineID: "m", User: debug}, Env: &facts.Env{Vars: []facts.Setting{variable}}, Launcher: &facts.Launcher{SSHPath: "/usr/bin/ssh"},
		}}
		for i := range r.Nodes {
			node := &r.Nodes[i]
			node.Files = &facts.Files{WorkDir: facts.WorkDir{Path: directory}}
			node.Names = &facts.Names{Own: directory}
			node.Disk = &facts.Disk{Places: []facts.Place{{Role: facts.PlaceWorkDir, Path: directory}, {Role: "tmp", Path: "/tmp"}}}
			node.Python = &facts.Python{SysPath: []string{directory, "/usr/lib/python3"}}
		}
		var out bytes.Buffer
		if err := Normalized(&out, r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := from("/home/a", "INFO")
	if diff := cmp.Diff(text, from("/work/b", "WARN")); diff != "" {
		t.Errorf("(-there +elsewhere):\n%s", diff)
	}
	for _, kept := range []string{"/usr/bin/ssh", `"machine_id": "m"`, "/usr/lib/python3", `"tmp"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is not there", kept)
		}
	}
}

// TestNormalizedInterrupted checks that facts missing after an interruption do not count as absent.
func TestNormalizedInterrupted(t *testing.T) {
	snapshot := sampleSnapshot(1)
	snapshot.Interrupted = true
	var out bytes.Buffer
	if err := Normalized(&out, snapshot); err != nil {
		t.Fatal(err)
	}
	if back, err := Read(&out); err != nil || !back.Interrupted {
		t.Errorf("interrupted %t, %v", back.Interrupted, err)
	}
}

func TestListsInLines(t *testing.T) {
	long := strings.Repeat("x", widestList)
	value := map[string]any{
		"empty": []any{}, "matrix": [][]int{{1, 2}, {3, 4}}, "objects": []any{map[string]any{"a": []string{"b"}}},
		"texts": []string{"a[", "],", "{", "\n]"}, "wide": []string{long, "y"},
	}
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := listsInLines(string(text))
	want := `{
 "empty": [],
 "matrix": [
  [1, 2],
  [3, 4]
 ],
 "objects": [
  {
   "a": ["b"]
  }
 ],
 "texts": ["a[", "],", "{", "\n]"],
 "wide": [
  "` + long + `",
  "y"
 ]
}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNatural(t *testing.T) {
	want := []string{"", "a", "gpu01", "gpu1", "gpu2", "gpu2-1", "gpu10", "gpu10a", "x100y2", "x100y10"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, natural.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
