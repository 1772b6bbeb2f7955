// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// modelFiles is how many files of a model are compared. The largest models on the Hub have some
	// hundreds of files.
	modelFiles = 2000
	// refSize is the largest size in bytes of a file that contains a commit.
	refSize = 64
)

// isCommit matches a revision that is itself a commit and not a reference to one.
//
// Source: huggingface_hub 0.36, file_download.py, REGEX_COMMIT_HASH.
var isCommit = lazyregexp.New(`^[0-9a-f]{40}$`)

// models searches the Hub's cache for the models that the launch names.
func models(ctx context.Context, o machine.Options) (found []facts.Model) {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, fmt.Errorf("not read within %s", readLimit))
	defer cancel()
	home := machine.Session(o).Home
	for _, named := range o.Models {
		cache := named.CacheDir
		if cache == "" {
			cache = cacheOf(o, home, named.DataSet)
		}
		look := modelIn
		if named.DataSet {
			look = dataSetIn
		}
		model, err := machine.Within(ctx, func() (facts.Model, error) { return look(cache, o, named) })
		if err != nil {
			model = facts.Model{ModelNamed: named, Problem: machine.Reason(err)}
		}
		model.Cache = cache
		found = append(found, model)
	}
	return found
}

// cacheOf returns the directory in which huggingface_hub caches downloads. If ofData is set, it
// returns the directory in which datasets caches prepared data sets.
//
// Source: huggingface_hub 0.36, constants.py; huggingface/datasets 4.0, config.py.
func cacheOf(o machine.Options, home string, ofData bool) string {
	env := o.Getenv
	home = cmp.Or(env("HOME"), home)
	dir := cmp.Or(env("HF_HOME"), filepath.Join(cmp.Or(env("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "huggingface"))
	if ofData {
		dir = cmp.Or(env("HF_DATASETS_CACHE"), filepath.Join(dir, "datasets"))
	} else {
		dir = cmp.Or(env("HF_HUB_CACHE"), env("HUGGINGFACE_HUB_CACHE"), filepath.Join(dir, "hub"))
	}
	if below, isHome := strings.CutPrefix(dir, "~/"); isHome {
		dir = filepath.Join(home, below)
	}
	return dir
}

// modelIn describes what a cache contains of a model. If the launch's working directory has a
// directory with the model's name, the name means that directory.
//
// Source: transformers 4.57, utils/hub.py, cached_files; huggingface_hub 0.36, file_download.py,
// try_to_load_from_cache.
func modelIn(cache string, o machine.Options, named facts.ModelNamed) (facts.Model, error) {
	model := facts.Model{ModelNamed: named, Local: isLocal(o, named)}
	if model.Local {
		return model, nil
	}
	if named.CacheDir == "" && o.Getenv("TRANSFORMERS_CACHE") != "" {
		return model, errors.New("TRANSFORMERS_CACHE is set: transformers before 5 uses it as the cache, later releases ignore it")
	}
	dir := filepath.Join(o.At(cache), "models--"+strings.ReplaceAll(named.Name, "/", "--"))
	commit := named.Revision
	if !isCommit.MatchString(commit) {
		ref, err := readOrdinary(filepath.Join(dir, "refs", named.Revision), refSize)
		if commit = strings.TrimSpace(string(ref)); err != nil || !isCommit.MatchString(commit) {
			return model, unlessAbsent(err)
		}
	}
	files, err := filesOfModel(filepath.Join(dir, "snapshots", commit))
	if err != nil {
		return model, unlessAbsent(err)
	}
	model.Commit, model.Files = commit, files
	return model, nil
}

func isLocal(o machine.Options, named facts.ModelNamed) bool {
	info, err := os.Stat(o.At(filepath.Join(o.WorkDir, named.Name)))
	return err == nil && info.IsDir()
}

// dataSetIn describes what a cache contains of a data set. A prepared revision is in
// CONFIGURATION/VERSION/COMMIT. Until it is complete, its directory has another name.
//
// Source: huggingface/datasets 4.0, packaged_modules/cache/cache.py, _find_hash_in_cache, and
// naming.py, camelcase_to_snakecase.
func dataSetIn(cache string, o machine.Options, named facts.ModelNamed) (facts.Model, error) {
	model := facts.Model{ModelNamed: named, Local: isLocal(o, named)}
	if model.Local {
		return model, nil
	}
	owner, name, _ := strings.Cut(named.Name, "/")
	name = beforeWord.ReplaceAllString(beforeLast.ReplaceAllString(name, "${1}_${2}"), "${1}_${2}")
	dir := filepath.Join(o.At(cache), owner+"___"+strings.ToLower(name))
	if _, err := os.ReadDir(dir); err != nil {
		return model, unlessAbsent(err)
	}
	made, err := fs.Glob(os.DirFS(dir), "*/*/*")
	var commits []string
	for _, below := range made {
		if info, err := os.Stat(filepath.Join(dir, below)); err == nil && info.IsDir() && !strings.Contains(filepath.Base(below), ".") {
			commits = append(commits, filepath.Base(below))
		}
	}
	slices.Sort(commits)
	model.Commit = strings.Join(slices.Compact(commits), " ")
	return model, err
}

var (
	beforeLast = lazyregexp.New(`([A-Z]+)([A-Z][a-z])`)
	beforeWord = lazyregexp.New(`([a-z\d])([A-Z])`)
)

func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// filesOfModel returns a digest of the files that the cache contains of a commit. The files are
// links into a store whose file names are checksums. A link without a target is an incomplete
// download.
func filesOfModel(snapshot string) (string, error) {
	entries, err := machine.ReadDir(snapshot, modelFiles+1)
	if err != nil {
		return "", err
	}
	if len(entries) > modelFiles {
		return "", fmt.Errorf("more than %d files", modelFiles)
	}
	sum := sha256.New()
	for _, entry := range entries {
		path := filepath.Join(snapshot, entry.Name())
		content := "nothing"
		if info, err := os.Stat(path); err == nil {
			content = fmt.Sprint(info.Size())
			if to, err := os.Readlink(path); err == nil {
				content = filepath.Base(to)
			}
		}
		fmt.Fprintf(sum, "%q %s\n", entry.Name(), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
