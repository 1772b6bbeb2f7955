// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// cloudTopology is a file in the format that clouds use. Its bridges are invented, and the class of
// a device shows its kind.
const cloudTopology = `<!-- for the sake of an example -->
<system version="1">
  <cpu numaid="0" affinity="0000ffff,0000ffff" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16" />
    </pci>
  </cpu>
</system>
`

func TestReadTopology(t *testing.T) {
	deep := strings.Repeat("<a>", 2000)
	tests := []struct {
		name, variable, text string
		want                 facts.TopologyFile // expected file; variable, path and digest are added by the test
	}{
		{"a cloud's", "", cloudTopology, facts.TopologyFile{GPUs: []string{"0001:00:00.0"}, NICs: []string{"0101:00:00.0"}}},
		{
			"as NCCL writes it", "",
			`<system version="1"><cpu numaid="0"><pci busid="0000:0e:00.0"><gpu dev="0" sm="90"><nvlink target="0000:05:00.0" count="18"/></gpu></pci>` +
				`<pci busid="0000:2e:00.0"><nic><net name="mlx5_0"/></nic></pci></cpu></system>`,
			facts.TopologyFile{GPUs: []string{"0000:0e:00.0"}, NICs: []string{"0000:2e:00.0"}},
		},
		{"an element that NCCL passes over, ended by another name", "", `<system version='1'><x><pci busid="1" class="0x030000"/></y></system>`, facts.TopologyFile{}},
		{"a declaration", "", "<?xml version=\"1.0\"?>\n" + cloudTopology, facts.TopologyFile{Malformed: `line 1: '?' where NCCL expects > at the end of <?xml`}},
		{"tabs", "", strings.Replace(cloudTopology, "    <pci", "\t\t<pci", 1), facts.TopologyFile{Malformed: `line 4: '\t' where NCCL expects <`}},
		{"attributes on two lines", "", "<system\nversion=\"1\">\n</system>", facts.TopologyFile{Malformed: `line 2: '\n' where NCCL expects > at the end of <system`}},
		{"cut", "", cloudTopology[:200], facts.TopologyFile{Malformed: "line 4: the file ends inside an element"}},
		{"cut between elements", "", "<system version=\"1\">\n<cpu numaid=\"0\">\n", facts.TopologyFile{Malformed: "line 3: <cpu> is not closed"}},
		{"crossed", "", `<system version="1"><cpu numaid="0"></system></cpu>`, facts.TopologyFile{Malformed: "line 1: </system> where NCCL expects </cpu>"}},
		{"no quotes", "", `<system version=1></system>`, facts.TopologyFile{Malformed: "line 1: a value is not in quotes"}},
		{"a long value", "", `<system version="` + strings.Repeat("1", 300) + `"/>`, facts.TopologyFile{Malformed: `line 1: more than 254 bytes in one word: "1111111111111111"…`}},
		{"another version", "", `<system version="2"/>`, facts.TopologyFile{Malformed: `line 1: <system> has version "2", and NCCL reads only version 1`}},
		{"no version", "", `<system/>`, facts.TopologyFile{Malformed: `line 1: <system> has version "", and NCCL reads only version 1`}},
		{"deep", "", deep, facts.TopologyFile{Malformed: "line 1: elements are nested too deep"}},
		{"JSON", "", `{"system": 1}`, facts.TopologyFile{Malformed: "line 1: '{' where NCCL expects <"}},
		{"empty", "", "\n", facts.TopologyFile{Problem: "it has no <system>"}},
		{"a graph where a topology is meant", "", `<graphs version="1"></graphs>`, facts.TopologyFile{Problem: "it has no <system>"}},
		{"a graph", facts.GraphVariable, `<graphs version="1"><graph id="0"><channel><net dev="0"/><gpu dev="0"/></channel></graph></graphs>`, facts.TopologyFile{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := probetest.Write(t, machine.Options{}, map[string]string{"/t.xml": test.text})
			got := readTopology(o, facts.TopologyFile{Variable: test.variable, Path: "/t.xml"})
			if len(got.Digest) != 64 {
				t.Errorf("digest %q", got.Digest)
			}
			if d := cmp.Diff(test.want, got, cmpopts.IgnoreFields(facts.TopologyFile{}, "Variable", "Path", "Digest"), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTopologyFiles(t *testing.T) {
	set := func(name, value string) facts.Setting { return facts.Setting{Name: name, Value: value} }
	var o machine.Options
	named := func(settings ...facts.Setting) string {
		var all []string
		for _, file := range topologyFiles(t.Context(), o, settings) {
			all = append(all, strings.TrimSuffix(file.Variable+" "+file.Path+" "+file.Problem, " "))
		}
		return strings.Join(all, ", ")
	}
	o = probetest.Write(t, machine.Options{WorkDir: "/job"}, map[string]string{"/job/t.xml": cloudTopology, "/opt/t.xml": cloudTopology})
	tests := []struct{ name, got, want string }{
		{"none", named(), ""},
		{"in the working directory", named(set("NCCL_TOPO_FILE", "t.xml")), "NCCL_TOPO_FILE /job/t.xml"},
		{"nowhere", named(set("NCCL_TOPO_FILE", "/opt/t.xml"), set("NCCL_GRAPH_FILE", "/g.xml")), "NCCL_TOPO_FILE /opt/t.xml, NCCL_GRAPH_FILE /g.xml no such file or directory"},
	}
	o.Exports = map[string]string{"NCCL_TOPO_FILE": "/opt/t.xml"}
	tests = append(tests, struct{ name, got, want string }{"exported", named(set("NCCL_TOPO_FILE", "t.xml")), "NCCL_TOPO_FILE /opt/t.xml"})
	o = probetest.Write(t, machine.Options{}, map[string]string{virtualTopology: cloudTopology})
	tests = append(tests, struct{ name, got, want string }{"by the topology daemon", named(), " " + virtualTopology})
	o.Exports = map[string]string{"NCCL_TOPO_FILE": "/t.xml"}
	tests = append(tests, struct{ name, got, want string }{"in its place", named(), "NCCL_TOPO_FILE /t.xml no such file or directory"})
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
}
