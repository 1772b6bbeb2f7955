// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostsys"
	"preflight/lazyregexp"
	"preflight/probe/machine"
)

const (
	// modelFiles is how many files of a model are compared. The largest on the Hub have some
	// hundreds.
	modelFiles = 2000
	// refSize is for a file that holds a commit.
	refSize = 64
)

// isCommit is a revision that is looked for by itself, and not by what refers to it.
//
// Source: huggingface_hub 0.36, file_download.py, REGEX_COMMIT_HASH.
var isCommit = lazyregexp.New(`^[0-9a-f]{40}$`)

// models looks for the models that the launch names in the cache of the Hub.
func models(ctx context.Context, o machine.Options) (found []facts.Model) {
	ctx, cancel := hostsys.WithTimeoutCause(ctx, readLimit, fmt.Errorf("not read within %s", readLimit))
	defer cancel()
	cache := hubCache(o, machine.Session(o).Home)
	for _, named := range o.Models {
		model, err := machine.Within(ctx, func() (facts.Model, error) { return modelIn(cache, o, named) })
		if err != nil {
			model = facts.Model{ModelNamed: named, Problem: machine.Reason(err)}
		}
		model.Cache = cache
		found = append(found, model)
	}
	return found
}

// hubCache is where huggingface_hub keeps what it has fetched.
//
// Source: huggingface_hub 0.36, constants.py.
func hubCache(o machine.Options, home string) string {
	env := o.Getenv
	home = cmp.Or(env("HOME"), home)
	dir := cmp.Or(env("HF_HOME"), filepath.Join(cmp.Or(env("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "huggingface"))
	dir = cmp.Or(env("HF_HUB_CACHE"), env("HUGGINGFACE_HUB_CACHE"), filepath.Join(dir, "hub"))
	if below, isHome := strings.CutPrefix(dir, "~/"); isHome {
		dir = filepath.Join(home, below)
	}
	return dir
}

// modelIn is what a cache has of a model. A name that a directory has, where the launch runs,
// means that directory.
//
// Source: transformers 4.57, utils/hub.py, cached_files; huggingface_hub 0.36,
// file_download.py, try_to_load_from_cache.
func modelIn(cache string, o machine.Options, named facts.ModelNamed) (facts.Model, error) {
	model := facts.Model{ModelNamed: named}
	if info, err := os.Stat(o.At(filepath.Join(o.WorkDir, named.Name))); err == nil && info.IsDir() {
		model.Local = true
		return model, nil
	}
	if o.Getenv("TRANSFORMERS_CACHE") != "" {
		return model, errors.New("TRANSFORMERS_CACHE is set, which transformers before 5 takes for the cache, and later ones do not")
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

func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// filesOfModel is a digest of what a commit has in the cache: links into a store where contents
// are called by their checksums. What a link leads to that is not there was not fetched to the end.
func filesOfModel(snapshot string) (string, error) {
	f, err := os.Open(snapshot)
	if err != nil {
		return "", err
	}
	defer f.Close()
	entries, err := f.ReadDir(modelFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if len(entries) > modelFiles {
		return "", fmt.Errorf("more than %d files", modelFiles)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	sum := sha256.New()
	for _, entry := range entries {
		path := filepath.Join(snapshot, entry.Name())
		is := "nothing"
		if info, err := os.Stat(path); err == nil {
			is = fmt.Sprint(info.Size())
			if to, err := os.Readlink(path); err == nil {
				is = filepath.Base(to)
			}
		}
		fmt.Fprintf(sum, "%q %s\n", entry.Name(), is)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
