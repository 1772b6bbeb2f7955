// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/probe/machine"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// cacheModel creates the Hub's cache as huggingface_hub does. The cache has one file with the given
// checksum.
func cacheModel(t *testing.T, cache, checksum string) {
	t.Helper()
	dir := filepath.Join(cache, "models--org--model")
	for path, text := range map[string]string{"refs/main": commit, "blobs/" + checksum: "{}"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := filepath.Join(dir, "snapshots", commit)
	if err := os.MkdirAll(snapshot, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../blobs/"+checksum, filepath.Join(snapshot, "config.json")); err != nil {
		t.Fatal(err)
	}
}

func TestModels(t *testing.T) {
	main := facts.ModelNamed{Name: "org/model", Revision: "main"}
	look := func(workDir, cache string, named facts.ModelNamed) facts.Model {
		o := machine.Options{WorkDir: workDir, Exports: map[string]string{"HF_HUB_CACHE": cache}, Models: []facts.ModelNamed{named}}
		return models(t.Context(), o)[0]
	}
	t.Setenv("TRANSFORMERS_CACHE", "")
	one, like, other, workDir := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	cacheModel(t, one, "aaaa")
	cacheModel(t, like, "aaaa")
	cacheModel(t, other, "bbbb")
	seen := look(workDir, one, main)
	if seen.Commit != commit || seen.Files == "" || seen.Cache != one || seen.Problem != "" {
		t.Errorf("a model that is there: %+v", seen)
	}
	if by := look(workDir, one, facts.ModelNamed{Name: "org/model", Revision: commit}); by.Commit != commit || by.Files != seen.Files {
		t.Errorf("by its commit: %+v", by)
	}
	if again := look(workDir, like, main); again.Files != seen.Files {
		t.Errorf("%s and %s for the same files", again.Files, seen.Files)
	}
	if unlike := look(workDir, other, main); unlike.Files == seen.Files {
		t.Error("a file that is another is no difference")
	}
	if err := os.Remove(filepath.Join(like, "models--org--model/blobs/aaaa")); err != nil {
		t.Fatal(err)
	}
	if unfinished := look(workDir, like, main); unfinished.Files == seen.Files {
		t.Error("a file that was not fetched to its end is no difference")
	}
	for _, absent := range []facts.Model{look(workDir, t.TempDir(), main), look(workDir, one, facts.ModelNamed{Name: "org/model", Revision: "v2"})} {
		if absent.Commit != "" || absent.Files != "" || absent.Problem != "" {
			t.Errorf("a model that is not there: %+v", absent)
		}
	}
	t.Setenv("TRANSFORMERS_CACHE", one)
	if unknown := look(workDir, one, main); !strings.Contains(unknown.Problem, "TRANSFORMERS_CACHE") {
		t.Errorf("nobody knows which cache is taken: %+v", unknown)
	}
	if err := os.MkdirAll(filepath.Join(workDir, "org/model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if local := look(workDir, one, main); !local.Local || local.Commit != "" {
		t.Errorf("a directory of that name: %+v", local)
	}
}

// TestDataSets checks that data sets are found that the datasets library has prepared. They are in
// the cache that the launch uses, and the library spells their names in its own way.
func TestDataSets(t *testing.T) {
	t.Setenv("TRANSFORMERS_CACHE", "/hub") // this variable applies only to models
	named := facts.ModelNamed{DataSet: true, Name: "HuggingFaceH4/ultraChat_200k", Revision: "main"}
	made := func(paths ...string) string {
		cache := t.TempDir()
		for _, path := range paths {
			if err := os.MkdirAll(filepath.Join(cache, path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return cache
	}
	const dir = "HuggingFaceH4___ultra_chat_200k/default/0.0.0/"
	for name, c := range map[string]struct {
		cache  string
		commit string
	}{
		"nothing":       {made(), ""},
		"another":       {made("HuggingFaceH4___ultrachat_200k/default/0.0.0/" + commit), ""},
		"made":          {made(dir + commit), commit},
		"not yet whole": {made(dir + commit + ".incomplete"), ""},
		"two":           {made(dir+commit, dir+"ab12", "HuggingFaceH4___ultra_chat_200k/other/0.0.0/ab12"), commit + " ab12"},
	} {
		o := machine.Options{WorkDir: t.TempDir(), Exports: map[string]string{"HF_DATASETS_CACHE": c.cache}, Models: []facts.ModelNamed{named}}
		if got := models(t.Context(), o)[0]; got.Commit != c.commit || got.Cache != c.cache || got.Problem != "" || got.Local {
			t.Errorf("%s: %+v, want %q", name, got, c.commit)
		}
		in := named
		in.CacheDir = c.cache
		o = machine.Options{WorkDir: o.WorkDir, Exports: map[string]string{"HF_DATASETS_CACHE": "/nonexistent"}, Models: []facts.ModelNamed{in}}
		if got := models(t.Context(), o)[0]; got.Commit != c.commit || got.Cache != c.cache {
			t.Errorf("%s, by --cache_dir: %+v, want %q", name, got, c.commit)
		}
	}
	home := made(".cache/huggingface/datasets/" + dir + commit)
	o := machine.Options{WorkDir: home, Exports: map[string]string{"HOME": home, "HF_DATASETS_CACHE": "", "HF_HOME": "", "XDG_CACHE_HOME": ""}, Models: []facts.ModelNamed{named}}
	if got := models(t.Context(), o)[0]; got.Commit != commit {
		t.Errorf("where datasets has it by itself: %+v", got)
	}
}
