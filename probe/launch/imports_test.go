// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"preflight/testhosts/probetest"
)

func TestImports(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"plain":                  {"import os, torch.nn as nn\nfrom deepspeed.ops import adam\n", "deepspeed os torch"},
		"behind a mark of UTF-8": {"\ufeffimport torch\n", "torch"},
		"of the package itself":  {"from . import x\nfrom .utils import y\n", ""},
		"in a block":             {"if True:\n    import torch\ndef f():\n\timport numpy\n", ""},
		"several on a line":      {"import os; import torch; x = 1; from a import b\r\n", "a os torch"},
		"continued":              {"import os, \\\n    torch\nfrom x import (\n  import_me,\n)\n", "os torch x"},
		"in texts":               {"\"\"\"Usage:\nimport datasets\n\"\"\"\nx = 'a \\' # b'; y = \"#\"; import torch # ; import numpy\ns = ''''\nimport json\n", "torch"},
		"quotes in a comment":    {"# don't\nimport torch\n#\"\"\"\nimport numpy", "numpy torch"},
		"a text within quotes":   {"x = \"'''\"\nimport torch\ny = '''a''' + '''\nimport no\n'''\nimport json", "json torch"},
		"no import":              {"important = 1\nimport_torch()\nfrom_here = 2\n", ""},
	} {
		names, _ := imports(test.script, func(string) bool { return false })
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestNeeds(t *testing.T) {
	dir := probetest.Plant(t, "-- helpers.py --\n-- parts/one.py --\n")
	for name, test := range map[string]struct{ script, want string }{
		"plain":                      {"import yaml, torch.nn\nprint(1)\nfrom transformers import x\n", "yaml torch transformers"},
		"behind a module beside":     {"import yaml\nimport helpers\nimport torch\n", "yaml"},
		"behind a directory beside":  {"from parts import one\nimport torch\n", ""},
		"behind another path":        {"import sys\nsys.path.append('x')\nimport torch\n", "sys"},
		"on the line of another":     {"import sys; sys.path.append('x'); import torch\n", ""},
		"behind what installs":       {"import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip'])\nimport yaml\n", "subprocess sys"},
		"behind what may end it":     {"import sys, os\nif x:\n    sys.exit(1)\nimport yaml\n", "sys os"},
		"behind a text that says so": {"\"\"\"sys.path is left alone\"\"\"\nimport yaml  # not sys.path\n", "yaml"},
		"behind what finds the root": {"import rootutils\nrootutils.setup_root(__file__, pythonpath=True)\nfrom src import x\n", ""},
		"tried":                      {"try:\n    import yaml\nexcept ImportError:\n    yaml = None\nimport torch\n", "torch"},
	} {
		_, needs := imports(test.script, isIn(dir))
		if got := strings.Join(needs, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
