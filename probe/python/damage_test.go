// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

const installation = `
-- torch-2.5.1.dist-info/INSTALLER --
pip
-- torch-2.5.1.dist-info/RECORD --
../../../bin/torchrun,sha256=x,230
torch/__init__.py,sha256=x,12
torch/lib/libtorch.so,sha256=x,20
torch/lib/libc10.so,sha256=x,4
torch/lib/libshm.so,sha256=x,4
torch/nn/__init__.py,sha256=x,4096
torch/nn/modules/rnn.py,sha256=x,99
torch/optim/adam.py,sha256=x,4096
torch/_linalg.py,sha256=x,4096
torch/nn/__pycache__/__init__.pyc,,
torch-2.5.1.dist-info/RECORD,,
-- torch/__init__.py --
import them
-- torch/lib/libtorch.so --
seven.
-- torch/nn/__init__.py --
-- torch/optim/adam.py --
changed by a person
-- torch/_linalg.py --
-- apex-1.dist-info/RECORD --
apex/__init__.py,sha256=x,10
`

func TestDamage(t *testing.T) {
	dir := probetest.Plant(t, installation)
	if err := os.Symlink("/nowhere/libshm.so", filepath.Join(dir, "torch/lib/libshm.so")); err != nil {
		t.Fatal(err)
	}
	s := readSite(t.Context(), []string{dir})
	whole := facts.Damage{Package: "torch", Version: "2.5.1", Dir: dir, Count: 5, Module: "torch", Files: []facts.DamagedFile{
		{Path: "torch/lib/libtorch.so", Size: 7, Recorded: 20},
		{Path: "torch/lib/libc10.so", Problem: "missing", Recorded: 4},
		{Path: "torch/lib/libshm.so", Problem: "symbolic link to /nowhere/libshm.so, which does not exist", Recorded: 4},
	}}
	got, unfinished := damage(t.Context(), machine.Options{}, s)
	if diff := cmp.Diff([]facts.Damage{whole}, got); diff != "" || unfinished != "" {
		t.Errorf("unfinished %q (-want +got)\n%s", unfinished, diff)
	}
}

// Packages that conda built have a record of files that conda changed later.
func TestDamageOfNoRecord(t *testing.T) {
	for name, text := range map[string]string{"torch-2.5.1.dist-info/INSTALLER": "conda\n", "torch-2.5.1.dist-info/RECORD": ""} {
		o := probetest.Write(t, machine.Options{Root: probetest.Plant(t, installation)}, map[string]string{name: text})
		s := readSite(t.Context(), []string{o.Root})
		if got, unfinished := damage(t.Context(), machine.Options{}, s); got != nil || unfinished != "" {
			t.Errorf("%s: damaged %+v, unfinished %q, want none", name, got, unfinished)
		}
	}
}

// With two records, the files agree with one of them.
func TestDamageAfterAnInterruptedUpgrade(t *testing.T) {
	dir := probetest.Plant(t, `
-- torch-2.4.1.dist-info/RECORD --
torch/__init__.py,sha256=x,12
torch/old.py,sha256=x,12
-- torch-2.5.1.dist-info/RECORD --
torch/__init__.py,sha256=x,12
-- torch/__init__.py --
import them
`)
	s := readSite(t.Context(), []string{dir})
	if got, _ := damage(t.Context(), machine.Options{}, s); got != nil {
		t.Errorf("damaged %+v, want none", got)
	}
}
