// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"preflight/facts"
)

func TestCompiles(t *testing.T) {
	always, sometimes := facts.CompilesAlways, facts.CompilesSometimes
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.py"), []byte("@torch.compile\ndef f(x):\n    return x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"import torch\nmodel = torch.compile(model)\n":                              always,
		"def main():\n    model = torch.compile(model, mode='max-autotune')\n":      always,
		"class M:\n    @torch.compile(dynamic=True)\n    def forward(self): pass\n": always,
		"if __name__ == '__main__':\n    torch.compile(f)\n":                        always,
		"if args.compile:\n    model = torch.compile(model)\n":                      sometimes,
		"def main():\n  if args.compile:\n    print()\n    x = torch.compile(x)\n":  sometimes,
		"if a:\n    pass\nx = torch.compile(x)\n":                                   always,
		"model = torch.compile(model) if args.compile else model\n":                 sometimes,
		"try:\n    f = torch.compile(f)\nexcept Exception:\n    pass\n":             sometimes,
		"from torch import nn, compile\n":                                           sometimes,
		"model = torch.compile(model, backend=\"eager\")\n":                         "",
		"model = torch.compile(model, disable=True)\n":                              "",
		"# torch.compile(model)\n\"\"\"\ntorch.compile(model)\n\"\"\"\n":            "",
		"import triton\n": sometimes,
		"from liger_kernel.transformers import AutoLigerKernelForCausalLM\n": always,
		"import model\n":                      always,
		"import torch, re\nre.compile('x')\n": "",
	} {
		names, _ := imports(script, isIn(dir))
		if got := compiles(script, dir, names); got != want {
			t.Errorf("%q compiles %q, want %q", script, got, want)
		}
	}
}
