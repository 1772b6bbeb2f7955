// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMistakes checks the error for a value that YAML reads differently: it names the line and says
// how to write the value. A comparison without quotes must not hide other mistakes.
func TestMistakes(t *testing.T) {
	sign := func(sign string) string {
		return " in quotes: " + sign + " at the start of a value means something else in YAML"
	}
	for text, want := range map[string]string{
		"expect:\n  gpu.driver: >=550":                                                                `p:2: write ">=550"` + sign(">"),
		"expect:\n  gpu.driver: > 550\n  net.mtu: >9000   # jumbo":                                    `p:2: write "> 550"` + sign(">") + "\n" + `p:3: write ">9000"` + sign(">"),
		"expect:\n  net.mtu: >5\n  gpu.driver: 5":                                                     `p:2: write ">5"` + sign(">"),
		"expect:\n  gpu.driver: !=550.54.15":                                                          `p:2: write "!=550.54.15"` + sign("!"),
		"expect:\n  gpu.driver: !=550, <600\n":                                                        `p:2: write "!=550, <600"` + sign("!"),
		"expect:\n  gpu.driver: [!=550.1, '>=2', absent]":                                             `p:2: write "!=550.1"` + sign("!"),
		"expect:\n- {fact: gpu.driver, is: >=550.1 }":                                                 `p:2: write ">=550.1"` + sign(">"),
		"expect:\n- fact: gpu.driver\n  is:\n  - >=550.1\n  - >=2":                                    `p:4: write ">=550.1"` + sign(">") + "\n" + `p:5: write ">=2"` + sign(">"),
		"groups: {a: w1}\nexpect:\n- fact: gpu.driver\n  is: 1\n  nodes: @a":                          `p:5: write "@a"` + sign("@"),
		"severity:\n  *: off":                                                                         `p:2: write "*"` + sign("*"),
		"waivers:\n- check: expectation\n  fact: *\n  reason: &r x\n  owner: *r\n  until: 2026-12-31": `p:3: write "*"` + sign("*"),
		"expect:\n\tgpu.driver: 550":                                                                  `p:2: indented with a tab: YAML needs spaces`,
		"expect:\n  gpu.driver: \">=550 # new\n  net.mtu: \"9000\"":                                   `p:2: unclosed quote in ">=550: write ">=550"`,
		"expect:\n  gpu.driver: '>=550":                                                               `p:2: unclosed quote in '>=550: write '>=550'`,
		"expect:\n  gpu.driver: >=lots\nstrictt: true\ntimeout: 12":                                   `p:2: write ">=lots"` + sign(">") + "\n" + `p:2: ">=lots": "lots" is not a version, and only versions can be ordered` + "\n" + `p:3: unknown setting "strictt": did you mean "strict"?` + "\n" + `p:4: timeout: 12 has no unit: write 12s`,
		"expect:\n  gpu.driver: >=550\n  net.mtu: a: b":                                               `p:2: write ">=550"` + sign(">") + "\np:3: not YAML: mapping values are not allowed in this context",
		"expect:\n- fact: gpu.driver\n  is: !=5\n  fix: |\n    it's > 5\n    - '>=\n":                 `p:3: write "!=5"` + sign("!"),
		"a: [":         "p:1: not YAML: did not find expected node content",
		"strict: \x01": "p: not YAML: control characters are not allowed",
	} {
		_, problems := readPolicy(t, text)
		if diff := cmp.Diff(strings.Split(want, "\n"), problems); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestNoMistakes checks that valid YAML is accepted unchanged.
func TestNoMistakes(t *testing.T) {
	for _, text := range []string{
		"expect:\n- fact: gpu.driver\n  is: '>=550'\n  fix: >-\n    it's\n    @here\n",
		"expect:\n- fact: gpu.driver\n  is: 1\n  fix: |\n",
		"waivers:\n- {check: shm-size, reason: &why \"it's\n  two lines\", owner: *why, until: 2026-12-31}\n",
		"expect:\n  gpu.driver:\t!!str 550",
		"# it's >=550\nstrict: true # \"not closed\n",
	} {
		if _, problems := readPolicy(t, text); problems != nil {
			t.Errorf("%q: %q", text, problems)
		}
	}
}
