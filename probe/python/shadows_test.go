// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// askOrigins is a script that prints where Python finds modules.
const askOrigins = `import importlib.util, sys
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    print(name, spec.origin if spec else None)
`

// TestShadows compares the result with what the interpreter itself imports.
func TestShadows(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	calendar, err := exec.Command(interpreter, "-c", "print(open(__import__('calendar').__file__).read(), end='')").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{"abc", "calendar", "colorsys", "json", "nobody", "queue", "fractions", "sched", "shelve", "textwrap", "time", "types", "wave"}
	for name, test := range map[string]struct {
		script, workDir, path []string // relative paths of the files in each directory
		env                   map[string]string
		want                  map[string]string // maps a module to its path below the root
	}{
		"nothing": {nil, nil, nil, nil, nil},
		"files": {[]string{"fractions.py", "abc.py", "time.py", "nobody.py", "queue.pyc", "wave.txt"}, nil, nil, nil,
			map[string]string{"fractions": "script/fractions.py", "queue": "script/queue.pyc"}},
		"packages": {[]string{"json/__init__.py", "types/inside.py", "textwrap/__init__.pyc", "shelve.py/x"}, nil, nil, nil,
			map[string]string{"json": "script/json", "textwrap": "script/textwrap"}},
		"a package goes before a file":        {[]string{"json/__init__.py", "json.py"}, nil, nil, nil, map[string]string{"json": "script/json"}},
		"a file goes before a bare directory": {[]string{"json/x.py", "json.py"}, nil, nil, nil, map[string]string{"json": "script/json.py"}},
		"a link to nothing":                   {[]string{"-> wave.py"}, nil, nil, nil, nil},
		"the same text":                       {[]string{"calendar.py"}, nil, nil, nil, nil},
		"by PYTHONPATH":                       {nil, nil, []string{"fractions.py", "sched.py"}, nil, map[string]string{"fractions": "path/fractions.py", "sched": "path/sched.py"}},
		"where packages are installed":        {nil, nil, []string{"fractions.py", "x-1.0.dist-info/METADATA"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			o := machine.Options{
				WorkDir: filepath.Join(root, "work"), Interpreter: interpreter, Modules: modules, Exports: map[string]string{"PYTHONPATH": filepath.Join(root, "path")},
				Files: []facts.LaunchFile{{Path: filepath.Join(root, "script/zz_ask.py"), Role: facts.RoleScript}},
			}
			probetest.Write(t, machine.Options{Root: root}, map[string]string{"/script/zz_ask.py": askOrigins, "/work/x": "", "/path/x": ""})
			for dir, names := range map[string][]string{"script": test.script, "work": test.workDir, "path": test.path} {
				for _, name := range names {
					if link, isLink := strings.CutPrefix(name, "-> "); isLink {
						if err := os.Symlink("gone", filepath.Join(root, dir, link)); err != nil {
							t.Fatal(err)
						}
						continue
					}
					text := ""
					if name == "calendar.py" {
						text = string(calendar)
					}
					probetest.Write(t, machine.Options{Root: root}, map[string]string{"/" + dir + "/" + name: text})
				}
			}
			seen, err := CollectPython(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			got, want := map[string]string{}, map[string]string{}
			for _, s := range seen.Shadows {
				got[s.Module] = s.Path
				if s.Hides == "" || strings.HasPrefix(s.Hides, root) {
					t.Errorf("%s hides %s", s.Path, s.Hides)
				}
			}
			for module, path := range test.want {
				want[module] = filepath.Join(root, path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("told (-want +got)\n%s", diff)
			}
			asked := exec.Command(interpreter, append([]string{"-B", o.Files[0].Path}, modules...)...)
			asked.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "path"))
			origins, err := asked.Output()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(origins)) {
				module, origin, _ := strings.Cut(strings.TrimSpace(line), " ")
				_, told := got[module]
				taken := strings.HasPrefix(origin, root) && module != "calendar" && module != "nobody" && name != "where packages are installed"
				if taken != told {
					t.Errorf("python takes %s from %s, told: %t", module, origin, told)
				}
			}
		})
	}
}

// TestShadowsOfTheLauncher checks that the working directory counts for what python -m runs.
// PYTHONSAFEPATH must disable the working directory and the script's directory.
func TestShadowsOfTheLauncher(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	probetest.Write(t, machine.Options{Root: root}, map[string]string{"/work/fractions.py": "", "/work/train.py": "", "/site/transformers/__init__.py": ""})
	o := machine.Options{WorkDir: filepath.Join(root, "work"), Interpreter: interpreter, Modules: []string{"fractions"}, Exports: map[string]string{}}
	roles := func() (all []string) {
		seen, err := CollectPython(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range seen.Shadows {
			all = append(all, s.In)
		}
		return all
	}
	if diff := cmp.Diff([]string{facts.InWorkDir}, roles()); diff != "" {
		t.Errorf("without a script (-want +got)\n%s", diff)
	}
	o.Files = []facts.LaunchFile{{Path: filepath.Join(root, "work/train.py"), Role: facts.RoleScript}}
	if diff := cmp.Diff([]string{facts.InScriptDir, facts.InWorkDir}, roles()); diff != "" {
		t.Errorf("with one there (-want +got)\n%s", diff)
	}
	o.Exports["PYTHONSAFEPATH"] = "1"
	version, err := exec.Command(interpreter, "-c", "import sys; print(sys.version_info >= (3, 11))").Output()
	if err != nil {
		t.Fatal(err)
	}
	if left := roles(); (left == nil) != (strings.TrimSpace(string(version)) == "True") {
		t.Errorf("with PYTHONSAFEPATH: %v", left)
	}
}

func TestIsCopy(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/installed/x/__init__.py": "", "/installed/x/a.py": "", "/installed/x/b.py": "", "/installed/x/c/__init__.py": "",
		"/copy/x/__init__.py": "", "/copy/x/a.py": "", "/copy/x/b.py": "", "/namesake/x/__init__.py": "", "/namesake/x/data.py": "", "/x.py": "",
	})
	for by, want := range map[string]bool{"/copy/x": true, "/namesake/x": false, "/x.py": false} {
		if got := isCopy(o.At(by), o.At("/installed/x")); got != want {
			t.Errorf("%s: %t", by, got)
		}
	}
}
