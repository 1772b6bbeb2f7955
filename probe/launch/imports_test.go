package launch

import (
	"strings"
	"testing"
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
		if got := strings.Join(imports(test.script), " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
