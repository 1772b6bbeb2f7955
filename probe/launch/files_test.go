// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestWorkDir(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/srv/job/file": ""})
	probetest.Link(t, o, "gone", "/srv/link")
	probetest.Link(t, o, "loop", "/srv/loop")
	for path, want := range map[string]facts.WorkDir{
		"":              {},
		"/srv/job":      {Exists: true},
		"/srv/none":     {},
		"/srv/job/file": {Exists: true, Problem: "is a file"},
		"/srv/link":     {Problem: "symbolic link to gone, which does not exist"},
		"/srv/loop":     {Exists: true, Problem: "too many levels of symbolic links"},
	} {
		o.WorkDir, want.Path = path, path
		if diff := cmp.Diff(want, workDir(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestNoFilesAreCheap checks that only the working directory is examined if the command names no
// files.
func TestNoFilesAreCheap(t *testing.T) {
	o := probetest.Write(t, machine.Options{WorkDir: "/srv"}, map[string]string{"/srv/.git/HEAD": strings.Repeat("a", 40), "/srv/train.py": ""})
	got, err := CollectFiles(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Files{WorkDir: facts.WorkDir{Path: "/srv", Exists: true}, Files: []facts.File{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCollectFiles(t *testing.T) {
	t.Setenv("HOME", "/home/ml")
	o := probetest.Write(t, machine.Options{WorkDir: "/srv"}, map[string]string{
		"/srv/ds.json":      `{"key": "hunter2"}`,
		"/srv/run.sh":       "#!/bin/sh\n",
		"/data/proj/a.py":   "a",
		"/data/proj/x/b.py": "b",
	})
	probetest.Link(t, o, "data/proj/a.py", "/train.py")
	probetest.Link(t, o, "nowhere", "/srv/broken")
	if err := os.Chmod(o.At("/srv/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(o.At("/srv/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.At("/srv/unmounted"), 0o755); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(o.At("/srv/model.pt"))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if err := large.Truncate(digestSize + 1); err != nil {
		t.Fatal(err)
	}
	argument := func(path string) facts.LaunchFile { return facts.LaunchFile{Path: path, Role: facts.RoleArgument} }
	o.Files = []facts.LaunchFile{
		{Path: "/train.py", Role: facts.RoleScript}, {Path: "/srv/ds.json", Role: facts.RoleConfig},
		argument("/srv/run.sh"), argument("/srv"), argument("/srv/none"), argument("/srv/ds.json/x"),
		argument("/srv/broken"), argument("/srv/pipe"), argument("/srv/model.pt"), argument("/srv/unmounted"),
	}
	want := &facts.Files{
		WorkDir: facts.WorkDir{Path: "/srv", Exists: true},
		Files: []facts.File{
			{LaunchFile: o.Files[0], Exists: true, Kind: "file", Size: 1, Digest: sha("a"), Code: sha("a\n"), WritesNothing: true},
			{LaunchFile: o.Files[1], Exists: true, Kind: "file", Size: 18, Digest: sha(`{"key": "hunter2"}`)},
			{LaunchFile: o.Files[2], Exists: true, Kind: "file", Size: 10, Digest: sha("#!/bin/sh\n"), Exec: true},
			{LaunchFile: o.Files[3], Exists: true, Kind: "directory"},
			{LaunchFile: o.Files[4]},
			{LaunchFile: o.Files[5]},
			{LaunchFile: o.Files[6], Problem: "symbolic link to nowhere, which does not exist"},
			{LaunchFile: o.Files[7], Exists: true, Kind: "other"},
			{LaunchFile: o.Files[8], Exists: true, Kind: "file", Size: digestSize + 1},
			{LaunchFile: o.Files[9], Exists: true, Kind: "directory", Empty: true},
		},
		// The sources are next to the file, not next to the link to it.
		Sources: &facts.Sources{
			Root: "/data/proj", Count: 2, Files: map[string]string{"a.py": sha("a")[:12], "x/b.py": sha("b")[:12]},
			Digest: sha(sha("a") + " \"a.py\"\n" + sha("b") + " \"x/b.py\"\n"),
		},
	}
	for _, head := range []bool{false, true} {
		if o.Head = head; head {
			want.Files[1].Text = `{"key": "…"}`
		}
		got, err := CollectFiles(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("on the launching machine %t (-want +got):\n%s", head, diff)
		}
	}
}

// TestFilesWithoutScript checks that there are no sources without a script. The repository is then
// that of the working directory.
func TestFilesWithoutScript(t *testing.T) {
	commit := strings.Repeat("a", 40)
	o := probetest.Write(t, machine.Options{WorkDir: "/srv/job"}, map[string]string{"/srv/.git/HEAD": commit, "/srv/job/train.py": ""})
	t.Setenv("PATH", "")
	for _, named := range []facts.LaunchFile{
		{Path: "/srv/job/train.py", Role: facts.RoleArgument},
		{Path: "/srv/job/none.py", Role: facts.RoleScript},
		{Path: "/srv/job", Role: facts.RoleScript},
	} {
		o.Files = []facts.LaunchFile{named}
		got, err := CollectFiles(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Sources != nil {
			t.Errorf("%v: sources %+v", named, got.Sources)
		}
		if diff := cmp.Diff(&facts.Repository{Root: "/srv", Commit: commit}, got.Repository); diff != "" {
			t.Errorf("%v (-want +got):\n%s", named, diff)
		}
	}
}

// TestDigestMindsItsTime checks that a file that was not read in time has no digest, and that its
// problem says so.
func TestDigestMindsItsTime(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/train.py": "x"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not read within 2s"))
	got := readFile(ctx, o, facts.LaunchFile{Path: "/train.py"})
	want := facts.File{LaunchFile: got.LaunchFile, Exists: true, Kind: "file", Size: 1, Problem: "not read within 2s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOneFileHangs checks that a file on a dead mount affects neither the other files nor the
// section.
func TestOneFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o machine.Options
		for i := range readTogether {
			o.Files = append(o.Files, facts.LaunchFile{Path: fmt.Sprintf("/srv/%d", i)})
		}
		o.Files[3].Path = "/dead"
		mounted := make(chan bool)
		began := time.Now()
		got := readFiles(t.Context(), o, func(_ context.Context, _ machine.Options, named facts.LaunchFile) facts.File {
			if named.Path == "/dead" {
				<-mounted
			}
			return facts.File{LaunchFile: named, Kind: "file"}
		})
		if took := time.Since(began); took != readLimit+machine.LastWords {
			t.Errorf("took %s", took)
		}
		close(mounted)
		for i, file := range got {
			want := facts.File{LaunchFile: o.Files[i], Kind: "file"}
			if i == 3 {
				want = facts.File{LaunchFile: o.Files[i], Exists: true, Problem: "not read within 2s"}
			}
			if diff := cmp.Diff(want, file); diff != "" {
				t.Errorf("%d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// TestFilesAreReadInTurn checks that no more than readTogether files are read at the same time. In
// the end all files must have been read.
func TestFilesAreReadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := machine.Options{Files: make([]facts.LaunchFile, 2*readTogether+1)}
		var counting sync.Mutex
		var now, most, all int
		readFiles(t.Context(), o, func(context.Context, machine.Options, facts.LaunchFile) facts.File {
			counting.Lock()
			now++
			most, all = max(most, now), all+1
			counting.Unlock()
			time.Sleep(readLimit / 8)
			counting.Lock()
			now--
			counting.Unlock()
			return facts.File{}
		})
		if most != readTogether || all != len(o.Files) {
			t.Errorf("%d of %d files, up to %d at a time, want %d", all, len(o.Files), most, readTogether)
		}
	})
}

func TestPartsOfFilesFitInsideTheSection(t *testing.T) {
	if longest := max(readLimit+machine.LastWords, sourcesLimit, gitLimit); longest+machine.LastWords >= FilesLimit {
		t.Errorf("a part of the section may take %s, all of it %s", longest, FilesLimit)
	}
}

// TestDaemon checks that the launcher's daemon is searched in the PATH of this session, or at its
// path.
func TestDaemon(t *testing.T) {
	bin := t.TempDir()
	orted := filepath.Join(bin, "orted")
	probetest.Program(t, orted, "#!/bin/sh\n")
	t.Setenv("PATH", bin)
	for asked, want := range map[string]*facts.Daemon{
		"": nil, "orted": {Asked: "orted", Path: orted}, orted: {Asked: orted, Path: orted},
		"hydra_pmi_proxy": {Asked: "hydra_pmi_proxy"}, bin: {Asked: bin}, "/nonexistent/orted": {Asked: "/nonexistent/orted"},
	} {
		files, err := CollectFiles(t.Context(), machine.Options{Daemon: asked})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, files.Daemon); diff != "" {
			t.Errorf("%q (-want +got)\n%s", asked, diff)
		}
	}
}
