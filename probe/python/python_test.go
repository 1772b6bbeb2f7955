// SPDX-License-Identifier: Apache-2.0

package python

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// fakePython writes an interpreter that answers with the given sys.path.
func fakePython(t *testing.T, sysPath ...string) string {
	t.Helper()
	answer := []string{"noise from a .pth file without an end", "preflight version 3.11.7", "preflight executable /opt/py/bin/python3", "preflight prefix /opt/py"}
	for _, dir := range sysPath {
		answer = append(answer, "preflight path "+dir)
	}
	return probetest.Script(t, "python3", "cat <<'ANSWER'\n"+strings.Join(answer, "\n\n")+"\nANSWER\n")
}

// quiet removes everything that influences the search, except the fixture.
func quiet(t *testing.T) {
	t.Helper()
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"} {
		t.Setenv(name, "")
	}
}

func TestParseAnswer(t *testing.T) {
	tests := []struct {
		name, output string
		complete     bool
		want         facts.Python
	}{{
		"with noise around",
		"hello from sitecustomize\npreflight version 3.11.7\n\npreflight executable /v/bin/python\n\npreflight prefix /v\n\npreflight path \n\npreflight path /a b\nbye",
		true,
		facts.Python{Version: "3.11.7", Executable: "/v/bin/python", Prefix: "/v", SysPath: []string{"/srv", "/a b"}},
	}, {
		"Windows line ends and an embedded interpreter",
		"preflight version 3.9.1\r\npreflight executable \r\npreflight path /a\r\n",
		true,
		facts.Python{Version: "3.9.1", SysPath: []string{"/a"}},
	}, {
		"cut short", "preflight version 3.11.7\n", false, facts.Python{Version: "3.11.7"},
	}, {
		"something else", "Python 3.11.7\n", false, facts.Python{},
	}}
	for _, tt := range tests {
		var got facts.Python
		if _, complete := parseAnswer(tt.output, "/srv", &got); complete != tt.complete {
			t.Errorf("%s: complete = %v, want %v", tt.name, complete, tt.complete)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestCollectPython(t *testing.T) {
	quiet(t)
	root := probetest.Plant(t, `
-- site/torch-2.5.1+cu124.dist-info/METADATA --
Metadata-Version: 2.1
Name: torch
Version: 2.5.1+cu124
Requires-Dist: filelock
Requires-Dist: nvidia-nccl-cu12==2.21.5; platform_system == "Linux" and platform_machine == "x86_64"

Requires-Dist: nvidia-nccl-cu12==9.9.9
-- site/torch/__init__.py --
-- site/torch/version.py --
from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.5.1+cu124'
debug = False
cuda: Optional[str] = '12.4'
git_version = 'a8d6afb511a69687bbb2b7e88a3cf67917e1697e'
hip: Optional[str] = None
-- site/nvidia_nccl_cu12-2.21.5.dist-info/RECORD --
-- site/nvidia/nccl/lib/libnccl.so.2 --
not an ELF file: NCCL version 2.21.5+cuda12.4
-- site/Flash_Attn-2.6.3.dist-info/METADATA --
-- site/unheard_of-1.0.dist-info/METADATA --
-- site/numpy-1.26.4.dist-info/METADATA --
-- src/numpy-2.0.0.dist-info/METADATA --
-- src/deepspeed/__init__.py --
-- site/accelerate-1.14.0.dist-info/METADATA --
-- site/accelerate/__pycache__/left.pyc --
-- src/deepspeed.egg-info/PKG-INFO --
Metadata-Version: 2.1
Version: 0.15.4+master
`)
	site, src := filepath.Join(root, "site"), filepath.Join(root, "src")
	work := t.TempDir()
	got, err := CollectPython(t.Context(), machine.Options{Root: root, WorkDir: work, Interpreter: fakePython(t, "", "/opt/py/lib/python311.zip", src, site)})
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Python{
		Path: got.Path, Found: true, Executable: "/opt/py/bin/python3", Version: "3.11.7", Prefix: "/opt/py",
		SysPath: []string{work, "/opt/py/lib/python311.zip", src, site},
		Packages: map[string]string{
			"torch": "2.5.1+cu124", "nvidia-nccl-cu12": "2.21.5", "flash-attn": "2.6.3", "numpy": "2.0.0", "deepspeed": "0.15.4+master",
		},
		MetadataOnly: []string{"accelerate"},

		Shadowed: []string{fmt.Sprintf("numpy 2.0.0 in %s hides 1.26.4 in %s", src, site)},
		Torch:    &facts.Torch{Version: "2.5.1+cu124", CUDA: "12.4", NCCLWheel: "2.21.5"},
		NCCL:     []facts.NCCLLibrary{{Path: filepath.Join(site, "nvidia/nccl/lib/libnccl.so.2"), Version: "2.21.5", CUDA: "12.4", From: "wheel"}},
		Protobuf: &facts.Protobuf{OldGenerated: []string{}, NewGenerated: []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCollectPythonOfThisMachine(t *testing.T) {
	const interpreter = "/usr/bin/python3"
	work := t.TempDir()
	got, err := CollectPython(t.Context(), machine.Options{Interpreter: interpreter, WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Found || got.Problem != "" || !strings.HasPrefix(got.Version, "3.") || got.Executable != interpreter || got.Prefix != "/usr" {
		t.Errorf("%+v", got)
	}
	if got.SysPath[0] != work {
		t.Errorf("sys.path begins with %s, want the working directory %s", got.SysPath[0], work)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("left behind in the working directory: %v, %v", left, err)
	}
}

// TestUnloadable runs the real loader in this session's environment.
func TestUnloadable(t *testing.T) {
	const interpreter = "/usr/bin/python3"
	libraries, _ := filepath.Glob("/usr/lib/*/libstdc++.so.6")
	if machine.LoaderOf(interpreter) == "" || len(libraries) == 0 {
		t.Skip("SKIPPED: python3 here is started by no loader, or there is no library to load")
	}
	torch, broken := t.TempDir(), t.TempDir()
	if err := os.Symlink(libraries[0], filepath.Join(torch, "_C.cpython-311-x86_64-linux-gnu.so")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", broken)
	if got := unloadable(t.Context(), interpreter, torch, torch); got != "" {
		t.Errorf("%q of what loads", got)
	}
	if err := os.WriteFile(filepath.Join(broken, "libgcc_s.so.1"), []byte("none"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := unloadable(t.Context(), interpreter, torch, torch), broken+"/libgcc_s.so.1: file too short"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestScriptError checks that the interpreter itself reports whether it can parse the script. It
// must not run any of it.
func TestScriptError(t *testing.T) {
	for name, want := range map[string]string{
		"good.py":    "",
		"cut.py":     "invalid syntax (cut.py, line 2)",
		"archive.py": "",
		"run.sh":     "",
		"none.py":    "",
		"latin.py":   "Non-UTF-8 code, but no encoding declared (latin.py)",
		"named.py":   "",
	} {
		o := probetest.Write(t, machine.Options{}, map[string]string{
			"/srv/good.py":    "import sys\nsys.exit(3)\n",
			"/srv/cut.py":     "import sys; print('here')\ndef :\n",
			"/srv/archive.py": "PK\x03\x04\x00",
			"/srv/run.sh":     "exec (\n",
			"/srv/latin.py":   "import sys\n\n# caf\xe9\n",
			"/srv/named.py":   "# coding: latin-1\n# caf\xe9\n",
		})
		o.Interpreter, o.Files = "/usr/bin/python3", []facts.LaunchFile{{Path: "/srv/" + name, Role: facts.RoleScript}}
		got, err := CollectPython(t.Context(), o)
		if err != nil || got.Problem != "" {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if got.ScriptError != want {
			t.Errorf("%s: %q, want %q", name, got.ScriptError, want)
		}
	}
}

func TestInterpreterThatDoesNotAnswer(t *testing.T) {
	dangling := filepath.Join(t.TempDir(), "python")
	if err := os.Symlink("/opt/gone/bin/python3.11", dangling); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(locked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, interpreter string
		found             bool
		problem           string
	}{
		{"absent", "/opt/gone/bin/python", false, ""},
		{"link to nowhere", dangling, false, "symbolic link to /opt/gone/bin/python3.11, which does not exist"},
		{"no execute bit", locked, true, "not executable for this user"},
		{"broken installation", probetest.Script(t, "python", "echo \"ModuleNotFoundError: No module named 'encodings'\" >&2; exit 1"), true, "ModuleNotFoundError: No module named 'encodings'"},
		{"not a python", probetest.Script(t, "python", "echo hello"), true, "it ran and printed nothing that was asked"},
		{"killed", probetest.Script(t, "python", "kill -9 $$"), true, "ended with signal: killed and said nothing"},
	}
	for _, tt := range tests {
		got, err := CollectPython(t.Context(), machine.Options{Interpreter: tt.interpreter})
		if err != nil {
			t.Fatal(err)
		}
		want := &facts.Python{
			Path: tt.interpreter, Found: tt.found, Problem: tt.problem,
			SysPath: []string{}, Packages: map[string]string{}, MetadataOnly: []string{}, NCCL: []facts.NCCLLibrary{},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got, err := CollectPython(ctx, machine.Options{Interpreter: probetest.Script(t, "python", "sleep 300")})
	if err != nil || got.Problem != "no answer in time; it was killed" {
		t.Errorf("hangs: %+v, %v", got, err)
	}
}

func TestFindInterpreterByPath(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(probetest.Script(t, "python", "")))
	var python facts.Python
	if !findInterpreter("", &python) || filepath.Base(python.Path) != "python" {
		t.Errorf("without python3: %+v, want python", python)
	}
	t.Setenv("PATH", filepath.Dir(probetest.Script(t, "python3", ""))+":"+os.Getenv("PATH"))
	if !findInterpreter("", &python) || filepath.Base(python.Path) != "python3" {
		t.Errorf("with both: %+v, want python3", python)
	}
	t.Setenv("PATH", t.TempDir())
	if findInterpreter("", &python) || python.Path != "python3" {
		t.Errorf("with neither: %+v, want python3, not found", python)
	}
}

func TestLaunchDirectory(t *testing.T) {
	work := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{work: work, "": here, "/no/such/dir": here, "/etc/passwd": here} {
		if got, err := machine.LaunchDirectory(asked); got != want || err != nil {
			t.Errorf("launchDirectory(%q) = %q, %v; want %q", asked, got, err, want)
		}
	}
}

func TestReadOps(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]bool
	}{
		"by setup.py": {
			"version='0.19.8'\ngit_hash='unknown'\ninstalled_ops={'async_io': False, 'cpu_adam': True, 'fused_adam': True}\naccelerator_name='cuda'\n",
			map[string]bool{"async_io": false, "cpu_adam": true, "fused_adam": true},
		},
		"of another hand":  {"installed_ops = {\"cpu_adam\" : True}\ncompatible_ops={'x': True}\n", map[string]bool{"cpu_adam": true}},
		"none":             {"installed_ops={}\n", map[string]bool{}},
		"of another thing": {"version='0.0'\n# installed_ops={'cpu_adam': True}\n", nil},
	} {
		dir := probetest.Plant(t, "\n-- git_version_info_installed.py --\n"+c.text)
		if diff := cmp.Diff(c.want, readOps(dir)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if got := readOps(""); got != nil {
		t.Errorf("without a package: %v", got)
	}
	if got := readOps(t.TempDir()); got != nil {
		t.Errorf("in an empty directory: %v", got)
	}
}

// TestUnfound checks that the real interpreter finds modules as it would import them, first in the
// script's directory.
func TestUnfound(t *testing.T) {
	const interpreter = "/usr/bin/python3"
	root := probetest.Plant(t, `
-- job/train.py --
import helpers, plugins.one, unheard_of
raise SystemExit("the script was run")
-- job/helpers.py --
raise SystemExit("a module was imported")
-- job/plugins/one.py --
-- job/compiled.abi3.so --
-- job/bare --
-- job/table.txt --
-- path/elsewhere.py --
`)
	if err := os.Symlink("gone.py", filepath.Join(root, "job/dangling.py")); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(root, "path/archive.zip")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	packed := zip.NewWriter(f)
	_, err = packed.Create("zipped.py")
	if err = errors.Join(err, packed.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := CollectPython(t.Context(), machine.Options{
		Interpreter: interpreter, WorkDir: t.TempDir(),
		Files:   []facts.LaunchFile{{Path: filepath.Join(root, "job/train.py"), Role: facts.RoleScript}},
		Exports: map[string]string{"PYTHONPATH": filepath.Join(root, "path") + ":" + archive},
		Modules: []string{"bare", "compiled", "dangling", "elsewhere", "email", "helpers", "json", "os", "plugins", "sys", "table", "unheard_of", "zipped"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bare", "dangling", "table", "unheard_of"}, got.Unfound); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.ScriptError != "" || got.Problem != "" {
		t.Errorf("%+v", got)
	}
	if beforeSafePath(got.Version) {
		return
	}
	safe, err := CollectPython(t.Context(), machine.Options{
		Interpreter: interpreter, WorkDir: t.TempDir(),
		Files:   []facts.LaunchFile{{Path: filepath.Join(root, "job/train.py"), Role: facts.RoleScript}},
		Exports: map[string]string{"PYTHONSAFEPATH": "1"},
		Modules: []string{"helpers", "json"},
	})
	if err != nil || !slices.Equal(safe.Unfound, []string{"helpers"}) {
		t.Errorf("with PYTHONSAFEPATH: %v, %+v", err, safe)
	}
}
