// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestSourcesAreTheProjectsOwn checks that only the files that an import could use are listed.
func TestSourcesAreTheProjectsOwn(t *testing.T) {
	t.Setenv("HOME", "/home/ml")
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/data/proj/train.py":                                  "1",
		"/data/proj/model/layers/rope.py":                      "2",
		"/data/proj/data/loader.py":                            "3",
		"/data/proj/build/generated.py":                        "4", // the build directory directly contains Python files
		"/data/proj/README.md":                                 "x",
		"/data/proj/model/weights.bin":                         "x",
		"/data/proj/.git/hooks/x.py":                           "x",
		"/data/proj/model/__pycache__/a.py":                    "x",
		"/data/proj/env/pyvenv.cfg":                            "x",
		"/data/proj/env/lib/a.py":                              "x",
		"/data/proj/conda/conda-meta/history":                  "x",
		"/data/proj/conda/lib/a.py":                            "x",
		"/data/proj/vendor/site-packages/a.py":                 "x",
		"/data/proj/node_modules/a.py":                         "x",
		"/data/proj/dist/lib/a.py":                             "x",
		"/data/proj/wandb/run-1/files/a.py":                    "x",
		"/data/proj/checkpoint-500/nested/a.py":                "x",
		"/data/proj/global_step100/nested/a.py":                "x",
		"/data/proj/Checkpoints/nested/a.py":                   "x",
		"/data/elsewhere/a.py":                                 "x",
		"/data/linked.py":                                      "5",
		"/data/proj/directory.py/in_a_directory_named_like.py": "6",
	})
	probetest.Link(t, o, "../linked.py", "/data/proj/linked.py")
	probetest.Link(t, o, "../elsewhere", "/data/proj/elsewhere")
	probetest.Link(t, o, "gone", "/data/proj/broken.py")
	for i := range sourcesEntries + 1 {
		probetest.Write(t, o, map[string]string{fmt.Sprintf("/data/proj/images/%d.py", i): ""})
	}
	got := sources(t.Context(), o, "/data/proj")
	want := []string{"build/generated.py", "data/loader.py", "directory.py/in_a_directory_named_like.py", "linked.py", "model/layers/rope.py", "train.py"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got.Files))); diff != "" || got.Count != len(want) || got.Problem != "" {
		t.Errorf("%d, %q (-want +got):\n%s", got.Count, got.Problem, diff)
	}
	if got.Files["linked.py"] != sha("5")[:12] {
		t.Errorf("a link has the digest %s", got.Files["linked.py"])
	}
}

// TestSourcesDigest checks that the digest changes if and only if a name or a content changes.
func TestSourcesDigest(t *testing.T) {
	t.Setenv("HOME", "/home/ml")
	look := func(files map[string]string) string {
		return sources(t.Context(), probetest.Write(t, machine.Options{}, files), "/data/proj").Digest
	}
	base := look(map[string]string{"/data/proj/a.py": "1", "/data/proj/b/c.py": "2"})
	if same := look(map[string]string{"/data/proj/b/c.py": "2", "/data/proj/x.txt": "x", "/data/proj/a.py": "1"}); same != base {
		t.Error("the same sources differ")
	}
	for _, other := range []map[string]string{
		{"/data/proj/a.py": "1", "/data/proj/b/c.py": "3"},
		{"/data/proj/a.py": "1", "/data/proj/b/d.py": "2"},
		{"/data/proj/a.py": "1"},
		{"/data/proj/a.py": "2", "/data/proj/b/c.py": "1"},
	} {
		if look(other) == base {
			t.Errorf("%v has the digest of another tree", other)
		}
	}
}

// TestSourcesLimits checks that too many files are not listed individually, and that far too many
// files are not read.
func TestSourcesLimits(t *testing.T) {
	t.Setenv("HOME", "/home/ml")
	for name, tt := range map[string]struct {
		files, told, count int
		problem            string
	}{
		"all told":          {sourcesListed, sourcesListed, sourcesListed, ""},
		"too many to tell":  {sourcesListed + 1, 0, sourcesListed + 1, ""},
		"as many as read":   {sourcesFiles, 0, sourcesFiles, ""},
		"more than is read": {sourcesFiles + 1, 0, sourcesFiles, "more than 2000 files"},
	} {
		o := machine.Options{}
		for i := range tt.files {
			o = probetest.Write(t, o, map[string]string{fmt.Sprintf("/data/proj/%05d.py", i): ""})
		}
		got := sources(t.Context(), o, "/data/proj")
		if len(got.Files) != tt.told || got.Count != tt.count || got.Problem != tt.problem || got.Digest == "" {
			t.Errorf("%s: %d told of %d, %q, digest %q", name, len(got.Files), got.Count, got.Problem, got.Digest)
		}
	}

	o := probetest.Write(t, machine.Options{}, map[string]string{"/data/proj/a.py": "", "/data/proj/b.py": ""})
	if err := os.Truncate(o.At("/data/proj/b.py"), sourcesSize+1); err != nil {
		t.Fatal(err)
	}
	if got := sources(t.Context(), o, "/data/proj"); got.Count != 1 || got.Problem != "more than 64 MiB" {
		t.Errorf("%+v", got)
	}
}

// TestSourcesWithoutTime covers a walk that its time limit ended. It stopped at a random file, so
// there must be no digest.
func TestSourcesWithoutTime(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/data/proj/a.py": ""})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not read within 1s"))
	if diff := cmp.Diff(&facts.Sources{Root: "/data/proj", Problem: "not read within 1s"}, sources(ctx, o, "/data/proj")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSourcesOfASharedDirectory checks a script outside a project. Only the files directly next to
// the script count.
func TestSourcesOfASharedDirectory(t *testing.T) {
	t.Setenv("HOME", "/nfs/me")
	o := probetest.Write(t, machine.Options{}, map[string]string{"/etc/passwd": fmt.Sprintf("me:x:%d:0::/homes/me:/bin/sh\n", os.Getuid())})
	for root, deep := range map[string]bool{
		"/": false, "/tmp": false, "/opt": false, "/var/tmp": false, "/usr/local": false, "/home/ml": false, "/homes/me": false, "/nfs/me": false,
		"/opt/conda/bin": false, "/data/proj": true, "/homes/me/proj": true, "/home/ml/proj": true, "/tmp/proj": true,
	} {
		probetest.Write(t, o, map[string]string{root + "/below/b.py": "", root + "/a.py": ""})
		got := sources(t.Context(), o, root)
		if _, read := got.Files["below/b.py"]; read != deep || got.Shared == deep || got.Files["a.py"] == "" {
			t.Errorf("%s: read what is below it: %t, want %t; %v", root, read, deep, got.Files)
		}
	}
}
