// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

// FuzzParseNCCLConf checks that the result has one value per name. Names and values must not be
// longer than NCCL allows.
func FuzzParseNCCLConf(f *testing.F) {
	f.Add("NCCL_DEBUG=INFO\n# x\n #y=1\nA==b\nA=c\r\n=")
	f.Fuzz(func(t *testing.T, text string) {
		settings, _ := parseNCCLConf(strings.NewReader(text), "x")
		names := map[string]bool{}
		for _, s := range settings {
			if names[s.Name] || s.Name == "" || s.Name[0] == '#' || strings.ContainsAny(s.Name, "=\n") || strings.Contains(s.Value, "\n") || len(s.Name) > ncclValueLimit || len(s.Value) > ncclValueLimit {
				t.Errorf("%q sets %q to %q", text, s.Name, s.Value)
			}
			names[s.Name] = true
		}
	})
}

// FuzzReadNCCLXML checks that any topology file is read to its end, and that every device in it has
// an address.
func FuzzReadNCCLXML(f *testing.F) {
	f.Add(cloudTopology)
	f.Add("<graphs version='1'><graph id=\"0\"/></graphs>")
	f.Fuzz(func(t *testing.T, text string) {
		seen := machineInXML{}
		found, err := readNCCLXML([]byte(text), "system", seen.addDevice)
		if slices.Contains(append(seen.gpus, seen.nics...), "") || !found && len(seen.gpus) > 0 || err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v, %v, %v", text, found, seen, err)
		}
	})
}

// FuzzMaskLines checks that every line of a .deepspeed_env is kept, and no possible secret.
func FuzzMaskLines(f *testing.F) {
	f.Add("HF_TOKEN=hunter2\n# hunter2\nNCCL_DEBUG=INFO\rX=%h$y", "a b")
	f.Fuzz(func(t *testing.T, text, value string) {
		masked := maskLines("MY_THING=" + strings.NewReplacer("\n", "", "\r", "").Replace(value) + "hunter2\n" + text)
		want := strings.Count(strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n"), "\n") + 2
		if text == "" {
			want = 1
		}
		if len(masked) != want || strings.Contains(masked[0], "hunter2") {
			t.Errorf("%q and %q: %q, want %d lines", value, text, masked, want)
		}
	})
}

// FuzzScript checks that a script is parsed and not run. The modules that it needs must be a subset
// of those that it imports.
func FuzzScript(f *testing.F) {
	f.Add("#!/usr/bin/env -S A=1 python3\nimport os, torch.nn as n; from x import (\n  y)\n'''\nimport z\n'''\nnew_group(backend=\"gloo\")\\\n#c")
	f.Add("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n' '''\nimport a\n")
	f.Fuzz(func(t *testing.T, script string) {
		names, needs := imports(script, func(module string) bool { return strings.HasPrefix(module, "y") })
		for _, name := range needs {
			if !slices.Contains(names, name) {
				t.Errorf("%q needs %q of %q", script, name, names)
			}
		}
		if !slices.IsSorted(names) || slices.ContainsFunc(names, func(name string) bool { return name == "" || strings.ContainsAny(name, " .,;\n") }) {
			t.Errorf("%q imports %q", script, names)
		}
		if program := parseShebang(bufio.NewReader(strings.NewReader(script))); program != "" && !strings.HasPrefix(script, "#!") {
			t.Errorf("%q is run by %q", script, program)
		}
		makesGloo([]byte(script))
		codeDigest([]byte(script))
	})
}
