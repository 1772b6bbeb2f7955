// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// enough is enough time for an interpreter on a busy machine.
const enough = time.Minute

// torch stands in for torch: a group of one rank, which does in small what FAULT says.
const torch = `
import operator, os, sys, time, types
__version__ = "0"
class Tensor(list):
    def __ne__(self, want): return Tensor(v != want for v in self)
    def any(self): return any(self)
    def sum(self): return sum(self)
    def nonzero(self): return [i for i, v in enumerate(self) if v]
def full(shape, value, device=None): return Tensor([value] * shape[0])
def device(name): return name
version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace(is_available=lambda: False)
def set_device(local): raise RuntimeError("No CUDA GPUs are available")
cuda.set_device = set_device
class Work:
    def wait(self): pass
dist = types.ModuleType("torch.distributed")
dist.is_available = lambda: True
dist.init_process_group = lambda backend, timeout: None
dist.get_rank = lambda: 0
dist.get_world_size = lambda: 1
dist.barrier = lambda async_op: Work()
dist.destroy_process_group = lambda: None
def all_reduce(tensor, async_op):
    exec(os.environ.get("FAULT", ""), dict(globals(), tensor=tensor))
    return Work()
dist.all_reduce = all_reduce
class DataLoader:
    def __init__(self, data, batch_size, num_workers, timeout, worker_init_fn): self.data = data
    def __iter__(self): return iter(self.data[i] for i in range(8))
data = types.ModuleType("torch.utils.data")
data.DataLoader = DataLoader
utils = types.ModuleType("torch.utils")
utils.data = data
distributed = dist
sys.modules.update({"torch.distributed": dist, "torch.utils": utils, "torch.utils.data": data})
`

// word is a line of a rank's report.
type word struct {
	Event, Stage, Detail, Error, How, Trace, What, Rank, Local, Host string
	Idle                                                             bool
	Sockets                                                          []struct {
		State, Local, Remote string
		Bytes                int
	}
}

// place is the directory of a rehearsal: the user's files, the packages that pip installed, and the
// rank's own directory.
type place struct{ dir string }

// prepare writes the user's files. {DIR} in a file stands for their directory, and names below
// site-packages/ are installed packages.
func prepare(t *testing.T, files map[string]string) place {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	p := place{t.TempDir()}
	for name, text := range files {
		p.write(t, "user/"+name, strings.ReplaceAll(text, "{DIR}", p.user("")))
	}
	p.write(t, "user/site-packages/torch/__init__.py", torch)
	return p
}

func (p place) user(name string) string { return filepath.Join(p.dir, "user", name) }

func (p place) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command is the rank that a launcher would start in the user's directory.
func (p place) command(t *testing.T, parameters Parameters, env ...string) *exec.Cmd {
	t.Helper()
	if parameters.Seconds == 0 {
		parameters.Seconds = enough.Seconds()
	}
	p.write(t, "rank/train.py", Script(parameters))
	cmd := exec.CommandContext(t.Context(), "python3", filepath.Join(p.dir, "rank/train.py"), "--local_rank=0", "--lr", "a b")
	cmd.Dir = p.user("")
	cmd.Env = append(os.Environ(), append([]string{"PYTHONPATH=" + p.user("site-packages"), "PYTHONDONTWRITEBYTECODE=", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1"}, env...)...)
	return cmd
}

// words reads the report of the only rank.
func (p place) words(t *testing.T) (words []word) {
	t.Helper()
	reports, _ := filepath.Glob(filepath.Join(p.dir, "rank/rank-*"))
	if len(reports) != 1 {
		t.Fatalf("reports: %v", reports)
	}
	text, err := os.ReadFile(reports[0])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var w word
		if err := json.Unmarshal([]byte(line), &w); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s: %v", line, err)
		}
		words = append(words, w)
	}
	return words
}

// await waits for a word and returns it.
func (p place) await(t *testing.T, event, stage string) word {
	t.Helper()
	for limit := time.Now().Add(enough); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		if reports, _ := filepath.Glob(filepath.Join(p.dir, "rank/rank-*")); len(reports) == 0 {
			continue
		}
		words := p.words(t)
		if at := slices.IndexFunc(words, func(w word) bool { return w.Event == event && w.Stage == stage }); at >= 0 {
			return words[at]
		}
	}
	t.Fatalf("no word %s in stage %s: %+v", event, stage, p.words(t))
	return word{}
}

// TestImports runs whole rehearsals of scripts that import something. A module of the user prints
// RUN if it is run.
func TestImports(t *testing.T) {
	t.Parallel()
	const own, broken = "print('RUN')\n", "raise ImportError('no libfoo.so')\n"
	for _, c := range []struct {
		name   string
		files  map[string]string
		module string
		failed string // part of the error in stage import, "" if the rehearsal succeeds
		place  string // part of the detail of the failure
		events string // part of the detail of a word "unknown" or "missing", with its event
	}{
		{"nothing", map[string]string{"train.py": own}, "", "", "", ""},
		{"own modules are not run", map[string]string{"train.py": "import a.b\nfrom a import c\n", "a/__init__.py": own, "a/b.py": own, "a/c.py": own}, "", "", "", ""},
		{"a name that an own module lacks", map[string]string{"train.py": "import os\nfrom a import g\n", "a.py": own + "def f(): pass\n"}, "", "cannot import name 'g' from 'a' ({DIR}/a.py)", "line 2 of {DIR}/train.py", ""},
		{"a name that an own package lacks", map[string]string{"train.py": "from a import g\n", "a/__init__.py": own + "f = 1\n"}, "", "cannot import name 'g' from 'a'", "line 1", ""},
		{"names that own modules have", map[string]string{"train.py": "from a import f, G, h, i, j, k, l, __file__\nfrom p import q, r\nfrom b import *\n", "b.py": own,
			"a.py": own + "import h, os.path as i\nasync def f():\n  global l\n  l = 1\nclass G: pass\ntry: j: int = 1\nexcept OSError: (k, _) = 1, 2\n", "h.py": own, "p/__init__.py": own + "from .q import s as r\n", "p/q.py": "s = 1\n"}, "", "", "", ""},
		{"names that a module adds by itself", map[string]string{"train.py": "from a import x\nfrom b import y\nfrom c import z\n", "a.py": own + "globals().update(x=1)\n", "b.py": own + "from c import *\n", "c.py": own + "def __getattr__(name): return 1\n"}, "", "", "", ""},
		{"what own modules import is", map[string]string{"train.py": "import a\n", "a.py": own + "import gone\n"}, "", "No module named 'gone'", "line 2 of {DIR}/a.py", ""},
		{"relative imports", map[string]string{"train.py": "from a.b import c\n", "a/__init__.py": "", "a/b.py": "from . import c\nfrom .c import d\n", "a/c.py": "import gone\n"}, "", "'gone'", "line 1 of {DIR}/a/c.py", ""},
		{"a relative import of the script", map[string]string{"train.py": "from . import a\n", "a.py": ""}, "", "attempted relative import", "line 1 of {DIR}/train.py", ""},
		{"a module that is missing in a package", map[string]string{"train.py": "import a.gone\n", "a/__init__.py": ""}, "", "No module named 'a.gone'", "line 1", ""},
		{"a module that is no package", map[string]string{"train.py": "import a.b\n", "a.py": ""}, "", "'a' is not a package", "line 1", ""},
		{"a package without an __init__.py", map[string]string{"train.py": "from a import b\n", "a/b.py": "import gone\n"}, "", "'gone'", "a/b.py", ""},
		{"modules that import each other", map[string]string{"train.py": "import a\n", "a.py": "import b\n", "b.py": "import a\n"}, "", "", "", ""},
		{"installed packages are run", map[string]string{"train.py": "import foo\n", "site-packages/foo.py": broken}, "", "no libfoo.so", "line 1", ""},
		{"a name that an installed package lacks", map[string]string{"train.py": "from foo import bar\n", "site-packages/foo.py": ""}, "", "cannot import name 'bar'", "line 1", ""},
		{"packages installed elsewhere", map[string]string{"train.py": "import foo\n", "foo.py": broken, "foo-1.dist-info/METADATA": ""}, "", "no libfoo.so", "line 1", ""},
		{"a file in the place of a library's", map[string]string{"train.py": "import foo\n", "site-packages/foo.py": "import sched\nsched.scheduler()\n", "sched.py": ""}, "", "has no attribute 'scheduler'", "line 1", ""},
		{"a file in the place of a library's that this script uses", map[string]string{"train.py": "import foo\n", "site-packages/foo.py": "import json\njson.dumps(1)\n", "json.py": ""}, "", "has no attribute 'dumps'", "line 1", ""},
		{"TYPE_CHECKING", map[string]string{"train.py": "import typing\nif typing.TYPE_CHECKING:\n    import gone\nif not typing.TYPE_CHECKING:\n    import there\n", "there.py": ""}, "", "", "", ""},
		{"the main part", map[string]string{"train.py": "if __name__ == '__main__':\n    import gone\n"}, "", "'gone'", "line 2", ""},
		{"the main part of another module", map[string]string{"train.py": "import a\n", "a.py": "if __name__ == '__main__':\n    import gone\n"}, "", "", "", ""},
		{"the release of Python", map[string]string{"train.py": "import sys\nif sys.version_info < (3, 0):\n    import gone\nelif sys.platform == 'win32':\n    import gone\n"}, "", "", "", ""},
		{"a condition", map[string]string{"train.py": "import sys\nif len(sys.argv) > x():\n    import gone\n"}, "", "", "", "unknown line 2 of {DIR}/train.py"},
		{"optional", map[string]string{"train.py": "try:\n    import gone\nexcept ImportError:\n    gone = None\ntry:\n    import gone\nexcept (OSError, Exception):\n    pass\ntry:\n    import gone\nexcept:\n    pass\n"}, "", "", "", ""},
		{"optional in an own module", map[string]string{"train.py": "try:\n    import a\nexcept ModuleNotFoundError:\n    pass\n", "a.py": "import gone\n"}, "", "", "", ""},
		{"optional, with another error", map[string]string{"train.py": "try:\n    import foo\nexcept ModuleNotFoundError:\n    pass\n", "site-packages/foo.py": broken}, "", "no libfoo.so", "line 2", ""},
		{"optional, with another module instead", map[string]string{"train.py": "try:\n    import gone\nexcept ImportError:\n    import gone_too\n"}, "", "'gone_too'", "line 4", ""},
		{"optional, but it ends the training", map[string]string{"train.py": "import sys\ntry:\n    import gone\nexcept ImportError:\n    print('pip install gone')\n    sys.exit(1)\n"}, "", "'gone'", "line 3", ""},
		{"optional, but it raises", map[string]string{"train.py": "try:\n    import gone\nexcept ImportError as e:\n    raise RuntimeError('pip install gone') from e\n"}, "", "'gone'", "line 2", ""},
		{"suppressed", map[string]string{"train.py": "import contextlib\nwith contextlib.suppress(ImportError):\n    import gone\n"}, "", "", "", ""},
		{"in a function", map[string]string{"train.py": "def main():\n    import gone\n"}, "", "", "", ""},
		{"sys.path of constants", map[string]string{"train.py": "import sys\nsys.path.append('{DIR}/lib')\nimport a\n", "lib/a.py": own}, "", "", "", ""},
		{"sys.path of the script's place", map[string]string{"train.py": "import os, sys\nfrom pathlib import Path\nHERE = Path(__file__).resolve().parent\nsys.path.insert(0, str(HERE / 'lib'))\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'more'))\nimport a, b\n",
			"lib/a.py": own, "more/b.py": own}, "", "", "", ""},
		{"sys.path of an own module", map[string]string{"train.py": "import paths\nimport a\n", "paths.py": "import sys\nsys.path += ['{DIR}/lib']\n", "lib/a.py": own}, "", "", "", ""},
		{"a clever sys.path", map[string]string{"train.py": "import sys\nfor d in find():\n    sys.path.append(d)\nimport a\nimport b.c\n"}, "", "", "", "unknown no module named a, but line 2 of {DIR}/train.py"},
		{"os.environ", map[string]string{"train.py": "import os\nfrom os import environ\nos.environ['A'] = '1'\nos.environ.setdefault('B', os.environ['A'] + '2')\nenviron['C'] = '3'\nimport foo\n",
			"site-packages/foo.py": "import os\nraise ImportError(os.environ['A'] + os.environ['B'] + os.environ['C'])\n"}, "", "1123", "line 6", ""},
		{"a clever os.environ", map[string]string{"train.py": "import os\nos.environ['A'] = secret()\n"}, "", "", "", "unknown line 2 of {DIR}/train.py: sets an environment variable"},
		{"nothing that does harm is run", map[string]string{"train.py": "import os, sys\nX = os.remove('{DIR}/train.py')\nsys.path.append(os.mkdir('{DIR}/d'))\nos.environ['A'] = open('{DIR}/train.py', 'w')\nimport train\n"}, "", "", "", "unknown line 4"},
		{"an encoding", map[string]string{"train.py": "# -*- coding: latin-1 -*-\nx = '\xe4'\n"}, "", "", "", ""},
		{"a mistake", map[string]string{"train.py": "import os\nif:\n"}, "", "SyntaxError", "", ""},
		{"no script", map[string]string{"other.py": ""}, "", "FileNotFoundError", "", "missing FileNotFoundError"},
		{"a module", map[string]string{"a/b.py": "from .c import d\n", "a/__init__.py": own, "a/c.py": "import gone\n"}, "a.b", "'gone'", "line 1 of {DIR}/a/c.py", ""},
		{"a module that is missing", map[string]string{"a/__init__.py": own}, "a.b", "No module named a.b", "", "missing ModuleNotFoundError"},
		{"a package as module", map[string]string{"a/__init__.py": own, "a/__main__.py": "import gone\n"}, "a", "'gone'", "a/__main__.py", ""},
		{"a package as module, without a main part", map[string]string{"a/__init__.py": own}, "a", "cannot be directly executed", "", "missing ModuleNotFoundError"},
		{"an installed module", map[string]string{"site-packages/a/__init__.py": "", "site-packages/a/b.py": own + "from . import gone\n"}, "a.b", "cannot import name 'gone'", "line 2", ""},
		{"an installed module that is missing", map[string]string{"site-packages/a/__init__.py": ""}, "a.b", "No module named a.b", "", "missing ModuleNotFoundError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, c.files)
			in := func(text string) string { return strings.ReplaceAll(text, "{DIR}/", p.user("")+"/") }
			parameters := Parameters{ID: "x", Script: p.user("train.py"), Bytes: 40, Module: c.module}
			if c.module != "" {
				parameters.Script = ""
			}
			before := tree(t, p)
			output, err := p.command(t, parameters).CombinedOutput()
			words := p.words(t)
			last := words[len(words)-1]
			if bytes.Contains(output, []byte("RUN")) {
				t.Errorf("it ran the user's module:\n%s", output)
			}
			if c.failed == "" && (err != nil || last.Event != "ended" || last.How != "finished") {
				t.Errorf("got %v, %+v\n%s", err, last, output)
			}
			if c.failed != "" && (err == nil || last.Event != "failed" || last.Stage != "import" || !strings.Contains(last.Error, in(c.failed)) || !strings.Contains(last.Detail, in(c.place))) {
				t.Errorf("got %v, %+v; want %q in %q\n%s", err, last, c.failed, in(c.place), output)
			}
			if c.failed != "" && !bytes.Contains(output, []byte("Traceback")) {
				t.Errorf("it printed no traceback: %s", output)
			}
			var events []string
			for _, w := range words {
				if w.Event == "unknown" || w.Event == "missing" {
					events = append(events, w.Event+" "+w.Detail)
				}
			}
			if (c.events == "") != (events == nil) || events != nil && !strings.HasPrefix(events[0], in(c.events)) {
				t.Errorf("got %q, want %q", events, in(c.events))
			}
			if after := tree(t, p); !slices.Equal(before, after) {
				t.Errorf("it left %v where there was %v", after, before)
			}
		})
	}
}

// tree lists the files of the user.
func tree(t *testing.T, p place) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(p.user(""), func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestStages goes through a whole rehearsal of a rank that mpirun started.
func TestStages(t *testing.T) {
	t.Parallel()
	p := prepare(t, map[string]string{"train.py": "", "out/x": ""})
	cmd := p.command(t, Parameters{ID: "x", Script: p.user("train.py"), Bytes: 40, MPI: true, Directories: []string{p.user("out"), p.user("out/new/one")}, Outputs: []string{p.user("out/x"), "/dev/null/x"}},
		"RANK=", "MASTER_ADDR=10.0.0.1", "LOCAL_RANK=", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.Contains(v, "RANK=") && !strings.HasPrefix(v, "OMPI") })
	before := tree(t, p)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil || output.Len() > 0 {
		t.Errorf("%v\n%s", err, &output)
	}
	var begun, done []string
	for _, w := range p.words(t) {
		switch w.Event {
		case "begin":
			begun = append(begun, w.Stage)
		case "done":
			done = append(done, w.Stage)
		}
		if w.Rank != "3" || w.Local != "1" || w.Host == "" {
			t.Errorf("got %+v", w)
		}
	}
	want := []string{"start", "import", "device", "meet", "small", "large", "barrier", "loader", "files", "leave"}
	if !slices.Equal(begun, want) || !slices.Equal(done, want) {
		t.Errorf("began %v, done %v, want %v", begun, done, want)
	}
	if after := tree(t, p); !slices.Equal(before, after) {
		t.Errorf("it left %v where there was %v", after, before)
	}
}

// TestFailures lets single stages fail.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		parameters Parameters
		fault      string
		stage      string
		want       string // part of the error and of the detail
	}{
		{"no GPU", Parameters{GPU: true}, "", "device", "RuntimeError: No CUDA GPUs are available"},
		{"no GPU for NCCL", Parameters{Backend: "nccl"}, "", "device", "RuntimeError: No CUDA GPUs are available"},
		{"no DeepSpeed", Parameters{DeepSpeed: true}, "", "import", "ModuleNotFoundError: No module named 'deepspeed'"},
		{"wrong sum", Parameters{}, "if len(tensor) > 1: tensor[7] = 2.0", "large", "ArithmeticError: 1 of 10 elements are wrong: element 7 is 2.0, not 1"},
		{"not a number", Parameters{}, "tensor[0] = float('nan')", "small", "ArithmeticError: 1 of 1 elements are wrong: element 0 is nan, not 1"},
		{"long words", Parameters{}, `raise OSError("\u00e4" * 9000)`, "small", "OSError: \u00e4\u00e4\u00e4"},
		{"an output that takes no file", Parameters{Outputs: []string{"/proc/self/fdinfo"}}, "", "files", "/proc/self/fdinfo"},
		{"a directory that is a file", Parameters{Directories: []string{"/dev/null/x"}}, "", "files", "/dev/null/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, map[string]string{"train.py": ""})
			c.parameters.ID, c.parameters.Script, c.parameters.Bytes = "x", p.user("train.py"), 40
			output, err := p.command(t, c.parameters, "FAULT="+c.fault).CombinedOutput()
			words := p.words(t)
			last := words[len(words)-1]
			if err == nil || last.Event != "failed" || last.Stage != c.stage || !strings.Contains(last.Error+" "+last.Detail, c.want) || !strings.Contains(last.Trace, "rank/train.py") {
				t.Errorf("got %v, %+v\n%s", err, last, output)
			}
		})
	}
}

// TestOnlyRank0MustWrite lets a rank other than rank 0 have a directory in which it cannot write.
func TestOnlyRank0MustWrite(t *testing.T) {
	t.Parallel()
	p := prepare(t, map[string]string{"train.py": ""})
	output, err := p.command(t, Parameters{ID: "x", Script: p.user("train.py"), Bytes: 40, Directories: []string{"/dev/null/x"}}, "RANK=1").CombinedOutput()
	words := p.words(t)
	at := slices.IndexFunc(words, func(w word) bool { return w.Event == "unwritten" })
	if err != nil || at < 0 || words[at].Error != "/dev/null: Not a directory" || words[len(words)-1].How != "finished" {
		t.Errorf("got %v, %+v\n%s", err, words, output)
	}
}

// TestEnds ends a rank that hangs in a library, which no handler of Python interrupts.
func TestEnds(t *testing.T) {
	t.Parallel()
	const hangs = `import ctypes; ctypes.CDLL(None).pause.restype; [ctypes.CDLL(None).pause() for _ in range(1000)]`
	for _, c := range []struct {
		name  string
		act   func(t *testing.T, p place, cmd *exec.Cmd, reader *os.File)
		fault string
		how   string
		trace string
	}{
		{"deadline", func(*testing.T, place, *exec.Cmd, *os.File) {}, hangs, "deadline", "in all_reduce"},
		{"SIGTERM", func(t *testing.T, _ place, cmd *exec.Cmd, _ *os.File) {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}, hangs, "terminated", ""},
		{"stop", func(t *testing.T, p place, _ *exec.Cmd, _ *os.File) { p.write(t, "rank/stop", "") }, hangs, "abandoned", ""},
		{"nobody reads", func(t *testing.T, _ place, _ *exec.Cmd, reader *os.File) { reader.Close() }, hangs, "abandoned", ""},
		{"with a process", func(t *testing.T, p place, _ *exec.Cmd, _ *os.File) { p.write(t, "rank/stop", "") },
			`import subprocess; subprocess.call(["sh", "-c", "sleep 987 & sleep 987"])`, "abandoned", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, map[string]string{"train.py": ""})
			parameters := Parameters{ID: "x", Script: p.user("train.py"), Bytes: 40}
			if c.how == "deadline" {
				parameters.Seconds = 4
			}
			cmd := p.command(t, parameters, "FAULT="+c.fault)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			cmd.Stdout = writer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			p.await(t, "begin", "small")
			time.Sleep(500 * time.Millisecond) // until it hangs
			c.act(t, p, cmd, reader)
			if err := cmd.Wait(); err == nil {
				t.Error("it succeeded")
			}
			last := p.await(t, "ended", "small")
			if last.How != c.how || !strings.Contains(last.Trace, c.trace) {
				t.Errorf("got %+v", last)
			}
			if c.name == "with a process" { // its processes had this pipe
				reader.SetReadDeadline(time.Now().Add(enough / 2))
				if n, err := reader.Read(make([]byte, 1)); n > 0 || os.IsTimeout(err) {
					t.Errorf("a process is left: %v", err)
				}
			}
		})
	}
}

// TestStalls lets a rank wait for a socket that does not answer, for nothing, and for a compiler.
func TestStalls(t *testing.T) {
	t.Parallel()
	// The kernel drops further connection attempts while this queue is full.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	full := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
	conn, err := net.Dial("tcp", full)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	for _, c := range []struct {
		name, fault, event string
	}{
		{"connecting", `import socket; socket.create_connection(("127.0.0.1", ` + full[len("127.0.0.1:"):] + `))`, "stalled"},
		{"idle", "time.sleep(60)", "stalled"},
		{"compiler", `import shutil, subprocess; shutil.copy(shutil.which("sleep"), "cc1plus"); subprocess.call(["./cc1plus", "30"])`, "building"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prepare(t, map[string]string{"train.py": ""})
			cmd := p.command(t, Parameters{ID: "x", Script: p.user("train.py")}, "FAULT="+c.fault)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w := p.await(t, c.event, "small")
			p.write(t, "rank/stop", "")
			cmd.Wait()
			switch {
			case c.name == "connecting" && (len(w.Sockets) != 1 || w.Sockets[0].State != "connecting" || w.Sockets[0].Remote != full || w.Idle),
				c.name == "idle" && (len(w.Sockets) != 0 || !w.Idle),
				c.name == "compiler" && w.What != "cc1plus":
				t.Errorf("got %+v", w)
			}
		})
	}
}
