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
	for code, want := range map[string]facts.Damage{
		`echo preflight imported`:                                     {Imported: true},
		`echo 'Traceback' >&2; echo "ImportError: of $4" >&2; exit 1`: {Import: "ImportError: of torch"},
		`kill -BUS $$`: {Import: "ended with signal: bus error and said nothing"},
	} {
		want.Package, want.Version, want.Dir, want.Count, want.Module, want.Files = whole.Package, whole.Version, whole.Dir, whole.Count, whole.Module, whole.Files
		got, unfinished := damage(t.Context(), machine.Options{}, s, probetest.Script(t, "python3", code+"\n"), dir)
		if diff := cmp.Diff([]facts.Damage{want}, got); diff != "" || unfinished != "" {
			t.Errorf("%s: unfinished %q (-want +got)\n%s", code, unfinished, diff)
		}
	}
}

// Packages that conda built have a record of files that conda changed later.
func TestDamageOfNoRecord(t *testing.T) {
	for name, text := range map[string]string{"torch-2.5.1.dist-info/INSTALLER": "conda\n", "torch-2.5.1.dist-info/RECORD": ""} {
		o := probetest.Write(t, machine.Options{Root: probetest.Plant(t, installation)}, map[string]string{name: text})
		s := readSite(t.Context(), []string{o.Root})
		if got, unfinished := damage(t.Context(), machine.Options{}, s, "/bin/false", "/"); got != nil || unfinished != "" {
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
	if got, _ := damage(t.Context(), machine.Options{}, s, "/bin/false", "/"); got != nil {
		t.Errorf("damaged %+v, want none", got)
	}
}

func TestInTheWay(t *testing.T) {
	dir := probetest.Plant(t, "-- libgomp.so.1 --\n-- libjpeg.so --\n")
	const fails = "ImportError: undefined symbol: GOMP_barrier"
	works := "echo preflight imported\n"
	for code, want := range map[string]string{
		works: "",
		`if [ -n "$LD_LIBRARY_PATH" ]; then echo '` + fails + `' >&2; exit 1; fi; ` + works: fails + " (LD_LIBRARY_PATH leads to " + dir + "/libgomp.so.1)",
		"echo 'ImportError: typing_extensions' >&2; exit 1\n":                               "",
	} {
		t.Setenv("LD_LIBRARY_PATH", dir)
		if got := inTheWay(t.Context(), probetest.Script(t, "python3", code), "/"); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", t.TempDir())
	if got := inTheWay(t.Context(), "/bin/false", "/"); got != "" {
		t.Errorf("without such a library: %q", got)
	}
}
