// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/report/formats"
)

// readPolicy reads a policy file with this text. It returns the policy and one line for each
// problem.
func readPolicy(t *testing.T, text string) (policyfile.Policy, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := readFile(path, settings(rootCommand()))
	if err == nil {
		return policy, nil
	}
	var out strings.Builder
	complain(&out, err)
	return policy, strings.Split(strings.TrimSpace(strings.NewReplacer("preflight: ", "", path, "p").Replace(out.String())), "\n")
}

func TestPolicy(t *testing.T) {
	got, problems := readPolicy(t, `
strict: true
groups:
  Rack.A: 'x'
`)
	if diff := cmp.Diff([]string{`p:4: groups: "Rack.A" is not a valid group name: use letters, digits, _ and -`}, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, problems = readPolicy(t, `
groups:
  Training: 'gpu[01-02]'
expect:
  - fact: nvml.driver
    is: ">=570.86"
    nodes: '@Training,w9'
  - {fact: net.interfaces.eth0.mtu, is: 9000, severity: warning, fix: "{ssh} ip link"}
  - {fact: shm.size, is: 1GiB, nodes: [a, "b[1-2]"]}
  - {fact: python.version, is: [3.10, "==3.11.2", absent]}
severity:
  - {check: clock-skew, severity: error}
  - {check: gpu-m*, severity: off}
waivers:
  - check: shm-size
    nodes: w3
    reason: &why the image
    owner: ops
    until: 2026-12-31
  - {check: expectation, fact: nvml.driver, reason: *why, owner: ops, until: 2026-12-31}
`)
	name := got.File
	want := policyfile.Policy{
		File:     name,
		Settings: map[string]policyfile.Value{},
		Expect: []checks.Expectation{
			{Fact: "nvml.driver", Is: []string{">=570.86"}, Nodes: []string{"gpu01", "gpu02", "w9"}, At: name + ":5"},
			{Fact: "net.interfaces.eth0.mtu", Is: []string{"9000"}, Severity: checks.Warning, Fix: "{ssh} ip link", At: name + ":8"},
			{Fact: "shm.size", Is: []string{"1GiB"}, Nodes: []string{"a", "b1", "b2"}, At: name + ":9"},
			{Fact: "python.version", Is: []string{"3.10", "==3.11.2", "absent"}, At: name + ":10"},
		},
		Off:        []string{"gpu-mode", "gpu-model-same"},
		Severities: map[string]checks.Severity{"clock-skew": checks.Error},
		Groups:     []checks.Group{{Name: "Training", Nodes: []string{"gpu01", "gpu02"}, At: name + ":3"}},
		Waivers: []checks.Waiver{
			{Check: "shm-size", Nodes: []string{"w3"}, Reason: "the image", Owner: "ops", Until: "2026-12-31", At: name + ":15"},
			{Check: "expectation", Fact: "nvml.driver", Reason: "the image", Owner: "ops", Until: "2026-12-31", At: name + ":20"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || problems != nil {
		t.Errorf("%q (-want +got):\n%s", problems, diff)
	}
	policy, err := Config{Stated: got, SHMHeadroom: "1GiB", DiskFree: "1GiB", Skip: []string{"shm-size"}}.policy()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.DateOnly, policy.Today); err != nil || policy.File != name || !policy.SwitchesOff("gpu-mode") || !policy.SwitchesOff("shm-size") {
		t.Errorf("today %q (%v), file %q, off %q", policy.Today, err, policy.File, policy.Skip)
	}
}

// TestFloors checks that the minimums for --smoke can be written in bytes or in bits.
func TestFloors(t *testing.T) {
	config := defaults(t)
	config.ComputeRate, config.CopyRate, config.NodeReduceRate, config.ReduceRate = "600TFLOP/s", "20GB/s", "2.4Tbit/s", "45 GB/s"
	policy, err := config.policy()
	got := []float64{policy.ComputeRate, policy.CopyRate, policy.NodeReduceRate, policy.ReduceRate}
	if diff := cmp.Diff([]float64{600e12, 160e9, 2.4e12, 360e9}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if policy, err = defaults(t).policy(); err != nil || policy.ComputeRate+policy.CopyRate+policy.NodeReduceRate+policy.ReduceRate != 0 {
		t.Errorf("%v; nobody stated any, and they are %+v", err, policy)
	}
}

// TestPolicyInShort checks that pairs mean the same as lists with two keys, and keep capitals and
// dots.
func TestPolicyInShort(t *testing.T) {
	short, problems := readPolicy(t, "expect:\n  shm.size: '>=1GiB'\n  python.packages.PyYAML: [6, absent]\nseverity:\n  gpu-mode: off\n  clock-skew: error\n")
	want := []checks.Expectation{
		{Fact: "shm.size", Is: []string{">=1GiB"}, At: short.File + ":2"},
		{Fact: "python.packages.PyYAML", Is: []string{"6", "absent"}, At: short.File + ":3"},
	}
	if diff := cmp.Diff(want, short.Expect); diff != "" || problems != nil {
		t.Errorf("%q (-want +got):\n%s", problems, diff)
	}
	if len(short.Off) != 1 || short.Severities["clock-skew"] != checks.Error {
		t.Errorf("off %q, severities %v", short.Off, short.Severities)
	}
}

// TestSeverities checks that a name overrides a pattern in any order, and that a later pattern
// overrides an earlier pattern.
func TestSeverities(t *testing.T) {
	for text, want := range map[string]string{
		"severity:\n  gpu-mode*: off\n  gpu-mode: error":                                   "error",
		"severity:\n  gpu-mode: error\n  gpu-mode*: off":                                   "error",
		"severity:\n  gpu-mode: off\n  gpu-*: error":                                       "off",
		"severity:\n  gpu-*: off\n  gpu-mod*: warning":                                     "warning",
		"severity:\n  '*': off\n  gpu-mode: error":                                         "error",
		"severity:\n  gpu-mod*: warning\n  gpu-*: off":                                     "off",
		"severity:\n- {check: gpu-*, severity: off}\n- {check: gpu-mode, severity: error}": "error",
	} {
		read, problems := readPolicy(t, text)
		got := string(read.Severities["gpu-mode"])
		if slices.Contains(read.Off, "gpu-mode") {
			got += "off"
		}
		if slices.Contains(read.Off, policyfile.Check) || read.Severities[policyfile.Check] != "" {
			t.Errorf("%q: a pattern takes the check of the policy itself with it", text)
		}
		if got != want || problems != nil {
			t.Errorf("%q: gpu-mode is %q, want %q (%q)", text, got, want, problems)
		}
	}
}

// TestMistakenFiles checks that preflight refuses a large file before it has read the whole file.
func TestMistakenFiles(t *testing.T) {
	long := strings.Repeat("# a log, by mistake\n", (1<<20)/20+1)
	if _, problems := readPolicy(t, long); len(problems) != 1 || !strings.Contains(problems[0], "larger than 1 MiB") {
		t.Errorf("a long file: %q", problems)
	}
	for _, empty := range []string{"", "---\n", "# nothing\n", "\ufeffstrict: true\r\n"} {
		if _, problems := readPolicy(t, empty); problems != nil {
			t.Errorf("%q: %q", empty, problems)
		}
	}
}

// TestPolicyProblems checks that every mistake is reported with its line and a suggestion.
func TestPolicyProblems(t *testing.T) {
	for text, want := range map[string]string{
		"strictt: true": `p:1: unknown setting "strictt": did you mean "strict"?`,
		"\nexpectt: []": `p:2: unknown setting "expectt": did you mean "expect"?`,
		"known_bad:\n- {id: a, when: {kernal: 6}, says: x}":            `p:2: when: unknown word "kernal": did you mean "kernel"?`,
		"known_bad:\n- {id: a, when: 6, says: x}":                      `p:2: when: must be a mapping, such as {nccl: "<2.29.3", arch: aarch64}`,
		"known_bad:\n- {id: a, when: {nccl: \"<2\"}, says: x, sey: y}": `p:2: known_bad: unknown key "sey": did you mean "says"?`,
		"quite-another: 1":            `p:1: unknown setting "quite-another": settings are the long names of the flags, with underscores, and expect, groups, known_bad, severity, waivers`,
		"strict: true\nstrict: false": `p:2: duplicate key strict`,
		"strict: maybe":               `p:1: strict: "maybe" is not true or false`,
		"strict: yes":                 `p:1: strict: "yes" is not true or false`,
		"\ntimeout: 12":               `p:2: timeout: 12 has no unit: write 12s`,
		"timeout: {a: 1}":             `p:1: timeout: must be a duration like 30s or 2m`,
		"launcher: [pdsh]":            `p:1: launcher: must be text`,
		"skip: [{a: b}]":              `p:1: skip: must be a list of texts`,
		"shm_headroom: 16":            `p:1: shm_headroom: 16 has no unit: write 16GiB, or 16B for bytes`,
		"\nlauncher: pdhs":            `p:2: launcher: "pdhs" is not one of pdsh, openmpi, mpich, impi, mvapich, slurm: did you mean "pdsh"?`,
		"severity:\n  mesh: off":      `p:2: unknown check "mesh": did you mean "node-mesh"?`,
		"waivers:\n- {check: Mesh, reason: r, owner: o, until: 2026-12-31}": `p:2: unknown check "Mesh": did you mean "node-mesh"?`,
		"master_port: 70000":                                 `p:1: master_port: 70000 is not a TCP port`,
		"shm_headroom: lots":                                 `p:1: shm_headroom: "lots" is not a size: use a size such as 512MiB or 16GiB`,
		"skip:\n- shm-size\n- shm-sise":                      `p:3: skip: unknown check "shm-sise": did you mean "shm-size"?` + "\n  preflight checks lists the checks",
		"output: [json=a, foo=x]":                            `p:1: output: foo=x: unknown format "foo": there are ` + strings.Join(formats.Names(), ", ") + "\n  formats are " + strings.Join(formats.Names(), ", ") + "; for a file of this name: ./foo=x",
		"baseline: ''":                                       `p:1: baseline: must not be empty: name the snapshot to compare with`,
		"memory_free: 10":                                    `p:1: memory_free: must be between 0 and 1: 10`,
		"clock_skew: -1s":                                    `p:1: clock_skew: must not be negative: -1s`,
		"severity:\n  policy: warning":                       `p:2: severity: policy cannot be changed: an expired waiver always fails`,
		"strict: true\n---\nstrict: false":                   `p:2: only one YAML document is allowed, and a second one begins here: remove the line with ---`,
		"<<: {strict: true}":                                 `p:1: merge keys (<<) are not supported: write the keys out`,
		"expect:\n  shm.sise: 1":                             `p:2: there is no fact "shm.sise" to compare: did you mean "shm.size"?`,
		"expect:\n  shm.size: lots":                          `p:2: "lots" is not a size: use a size such as 512MiB or 16GiB`,
		"severity:\n  shm-size: none":                        `p:2: severity: "none" is not one of error, warning, off`,
		"severity:\n  shm-size: off\n  shm-size: off":        `p:3: duplicate key shm-size`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  nodes: ''": `p:4: nodes: node set "" names no host`,
		"severity:\n- {check: shm-size, severity: off}\n- {check: shm-size, severity: error}":                `p:3: severity: duplicate check shm-size: it is set at p:2 already`,
		"waivers:\n- {check: policy, reason: r, owner: o, until: 2026-12-31}":                                `p:2: policy checks the waivers itself and cannot be waived: repair what it finds`,
		"waivers:\n- {check: drift, nodes: w3, reason: r, owner: o, until: 2026-12-31}":                      `p:2: a waiver of drift must name a fact: add fact: shm.size, or fact: "*" for all of them`,
		"waivers:\n- {check: drift, fact: net.interfaces.eth1.mtuu, reason: r, owner: o, until: 2026-12-31}": `p:2: there is no fact "net.interfaces.eth1.mtuu" to compare: did you mean "net.interfaces.*.mtu"?`,
		"\nlauncher: yarn":           `p:2: launcher: "yarn" is not one of pdsh, openmpi, mpich, impi, mvapich, slurm`,
		"expect:\n  shm.size: '<0'":  `p:2: "<0" is impossible: no whole number from 0 on fits`,
		"waivers: {check: shm-size}": `p:1: waivers: must be a list: each entry begins with "- check:"`,
		"waivers:\n- {check: shm-size, fact: shm.size, reason: r, owner: o, until: 2026-12-31}":    `p:2: only findings of expectation and drift name a fact, not those of shm-size`,
		"waivers:\n- {check: expectation, fact: shm.sise, reason: r, owner: o, until: 2026-12-31}": `p:2: there is no fact "shm.sise" to compare: did you mean "shm.size"?`,
		"- strict":                                                            `p:1: settings must be written as "name: value"`,
		"expect: 12":                                                          `p:1: expect: must be a list: each entry begins with "- fact:"`,
		"expect:\n- shm.size":                                                 `p:2: expect: each entry must have keys: fact, is, nodes, severity, fix`,
		"expect:\n- {is: 1}":                                                  `p:2: expect: this entry is missing "fact:"`,
		"expect:\n- fact: shm.size":                                           `p:2: expect: this entry is missing "is:"`,
		"expect:\n- fact: shm.size\n  is: ''":                                 `p:3: is: must not be empty`,
		"expect:\n- fact: shm.size\n  is: []":                                 `p:3: is: must not be an empty list`,
		"expect:\n- fact: shm.size\n  is: {a: 1}":                             `p:3: is: must be a single value`,
		"expect:\n- fact: gpux.driver\n  is: 1":                               `p:2: there is no fact "gpux.driver" to compare: did you mean "nvml.driver"?`,
		"expect:\n- fact: shm.size\n  is: lots":                               `p:3: "lots" is not a size: use a size such as 512MiB or 16GiB`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  node: w1":                   `p:4: expect: unknown key "node": did you mean "nodes"?`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  nodes: 'w[1-'":              `p:4: nodes: node set "w[1-": "[" without "]"`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  nodes: w[3-1]":              `p:4: nodes: node set "w[3-1]": [3-1] runs backwards`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  nodes: '@a'":                `p:4: nodes: unknown group "a"`,
		"expect:\n- fact: shm.size\n  is: 1GiB\n  severity: warn":             `p:4: severity: "warn" is not one of error, warning`,
		"groups: {a: w1}\nexpect:\n- {fact: shm.size, is: 1GiB, nodes: '@b'}": `p:3: nodes: unknown group "b": there are a`,
		"groups: [a]":           `p:1: groups: must map names to node sets, such as training: 'gpu[01-16]'`,
		"groups:\n  a: 'w[1-2'": `p:2: groups: a: node set "w[1-2": "[" without "]"`,
		"severity:\n- {check: shm-sise, severity: off}":                                  `p:2: unknown check "shm-sise": did you mean "shm-size"?`,
		"severity:\n- {check: shm-size, severity: none}":                                 `p:2: severity: "none" is not one of error, warning, off`,
		"severity:\n- {check: shm-size}":                                                 `p:2: severity: this entry is missing "severity:"`,
		"severity:\n- {check: shm-size, fact: shm.size, severity: off}":                  `p:2: fact: not for shm-size: only findings of drift name single facts`,
		"severity:\n- {check: drift, fact: shm.sise, severity: off}":                     `p:2: there is no fact or topic "shm.sise": did you mean "shm.size"?`,
		"severity:\n- {check: drift, fact: shm.size}":                                    `p:2: severity: this entry is missing "severity:"`,
		"expect: {gpu.drive: \"550\"}":                                                   `p:1: there is no fact "gpu.drive" to compare: did you mean "gpu.driver"?`,
		"expect: {net.mut: 1500}":                                                        `p:1: there is no fact "net.mut" to compare: did you mean "net.mtu"?`,
		"expect: {smoke.ranks.0.rate: '>=5'}":                                            `p:1: "smoke.ranks.0.rate" belongs to one run: set minimum rates for --smoke with compute_rate, copy_rate, node_reduce_rate and reduce_rate`,
		"compute_rate: 600":                                                              `p:1: compute_rate: "600" is not a compute rate: use a rate such as 600TFLOP/s or 600Top/s`,
		"compute_rate: 20GB/s":                                                           `p:1: compute_rate: "20GB/s" is not a compute rate: use a rate such as 600TFLOP/s or 600Top/s`,
		"copy_rate: 20GB":                                                                `p:1: copy_rate: "20GB" is not a rate: use a rate such as 100Gbit/s or 12.5GB/s`,
		"reduce_rate: -1GB/s":                                                            `p:1: reduce_rate: "-1GB/s" is not a rate: use a rate such as 100Gbit/s or 12.5GB/s`,
		"expect: {host.hostname: w1}":                                                    `p:1: "host.hostname" differs on every node, so an expectation cannot state it: --baseline compares each node with its earlier value`,
		"severity:\n  drift:\n    drivr: off\n    gpus: none":                            `p:3: there is no fact or topic "drivr": did you mean "driver"?` + "\n" + `p:4: severity: "none" is not one of error, warning, off`,
		"severity:\n  shm-size: {shm.size: off}":                                         `p:2: severity: must be a single value`,
		"waivers:\n- {check: x-y-z-zz, reason: r, owner: o, until: 2026-12-31}":          `p:2: unknown check "x-y-z-zz"`,
		"waivers:\n- {check: shm-size, reason: r, owner: o, until: 2026-02-30}":          `p:2: until: "2026-02-30" is not a date: write it like 2026-12-31`,
		"waivers:\n- {check: shm-size, reason: r, owner: o, until: soon}":                `p:2: until: "soon" is not a date: write it like 2026-12-31`,
		"waivers:\n- {check: shm-size, reason: r, owner: o}":                             `p:2: waivers: this entry is missing "until:"`,
		"waivers:\n- {check: shm-size, owner: o, until: 2026-12-31}":                     `p:2: waivers: this entry is missing "reason:"`,
		"waivers:\n- {check: shm-size, reason: r, owner: o, until: 2026-12-31, node: w}": `p:2: waivers: unknown key "node": did you mean "nodes"?`,
	} {
		_, problems := readPolicy(t, text)
		if diff := cmp.Diff(strings.Split(want, "\n"), problems); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	_, problems := readPolicy(t, "waivers:\n- {check: shm-size, reason: r, owner: o, until: soon}\nexpect:\n- {fact: shm.size, is: lots}\nmaster_port: 0\nstrictt: 1\n")
	if len(problems) != 4 || !strings.HasPrefix(problems[0], "p:2:") || !strings.HasPrefix(problems[2], "p:5:") || !strings.HasPrefix(problems[3], "p:6:") {
		t.Errorf("not all at once, or not from the top: %q", problems)
	}
}

// TestDriftSeverities checks the severities of single facts in both forms. The names of the facts
// keep dots, capitals and stars.
func TestDriftSeverities(t *testing.T) {
	policy, problems := readPolicy(t, "severity:\n  drift:\n    '*': warning\n    env.vars.NCCL_IB_TC: error\n    driver: off\n")
	if problems != nil {
		t.Fatal(problems)
	}
	want := []checks.DriftSeverity{{Of: "*", Severity: checks.Warning}, {Of: "env.vars.NCCL_IB_TC", Severity: checks.Error}, {Of: "driver", Severity: checks.Off}}
	if diff := cmp.Diff(want, policy.Drift); diff != "" {
		t.Errorf("in short (-want +got):\n%s", diff)
	}
	policy, problems = readPolicy(t, "severity:\n- {check: drift, severity: error}\n- {check: drift, fact: net.interfaces.*.mtu, severity: off}\n")
	want = []checks.DriftSeverity{{Of: "net.interfaces.*.mtu", Severity: checks.Off}}
	if diff := cmp.Diff(want, policy.Drift); diff != "" || problems != nil || policy.Severities["drift"] != checks.Error {
		t.Errorf("in a list: %v, %v (-want +got):\n%s", policy.Severities, problems, diff)
	}
}
