// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestImports imports real modules with a real interpreter.
func TestImports(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	dir := probetest.Plant(t, `
-- whole.py --
-- half.py --
raise ImportError("numpy.core.multiarray\n\nfailed to import\n")
-- listing.py --
raise ValueError("Invalid log settings: x, must be a list of\nnames\nValid settings:\nall, aot")
-- cut.py --
def f(
-- crashes.py --
import os
os.kill(os.getpid(), 7)
-- needs.py --
import nothing_like_it
`)
	t.Setenv("PYTHONPATH", dir)
	damaged := []facts.Damage{{Package: "whole", Module: "whole"}, {Package: "half", Module: "half"}}
	got := imports(t.Context(), machine.Options{Imports: []string{"half", "listing", "cut", "absent", "needs", "crashes", "never"}}, python, "/", nil)
	want := []facts.BrokenImport{
		{Module: "half", File: dir + "/half.py", Error: "ImportError: failed to import"},
		{Module: "listing", File: dir + "/listing.py", Error: "ValueError: Invalid log settings: x, must be a list of"},
		{Module: "cut", File: dir + "/cut.py", Error: "SyntaxError: '(' was never closed (cut.py, line 1)"},
		{Module: "needs", File: dir + "/needs.py", Error: "ModuleNotFoundError: No module named 'nothing_like_it'"},
		{Module: "crashes", Error: "ended with signal: bus error and said nothing"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := imports(t.Context(), machine.Options{}, python, "/", damaged); len(got) != 1 || !damaged[0].Imported || damaged[1].Import != want[0].Error {
		t.Errorf("of damaged packages: %+v, %+v", got, damaged)
	}
	if got := imports(t.Context(), machine.Options{}, "/bin/false", "/", nil); got != nil {
		t.Errorf("without a launch: %+v", got)
	}

	// The import works without PYTHONPATH, so the variable is the reason.
	if err := os.WriteFile(dir+"/colorsys.py", []byte("raise ImportError('old')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = imports(t.Context(), machine.Options{Imports: []string{"colorsys"}}, python, "/", nil)
	if len(got) != 1 || got[0].Because != "PYTHONPATH="+dir {
		t.Errorf("%+v, want PYTHONPATH as the reason", got)
	}
}
