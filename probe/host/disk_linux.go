// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

func CollectDisk(ctx context.Context, o machine.Options) (*facts.Disk, error) {
	seen := &facts.Disk{Places: places(o, machine.Session(o).Home)}
	if err := machine.LookAtPlaces(ctx, o, seen.Places); err != nil {
		return nil, err
	}
	list(ctx, o, seen.Places)
	return seen, nil
}

// places returns the directories that a launch writes to, by the rules of the programs that write
// there. These programs are huggingface_hub (constants.py), Triton (runtime/cache.py), and torch
// (_inductor/runtime/cache_dir_utils.py, which uses the temporary directory by default;
// utils/cpp_extension.py). The result also contains DeepSpeed's offload directories from the
// configuration, and the directories that the launch command names.
func places(o machine.Options, home string) []facts.Place {
	env := o.Getenv
	home = cmp.Or(env("HOME"), home)
	cache := cmp.Or(env("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	all := []facts.Place{
		{Role: "workdir", Path: o.WorkDir},
		{Role: "tmp", Path: cmp.Or(env("TMPDIR"), "/tmp")},
		{Role: "var-tmp", Path: "/var/tmp"},
		{Role: "home", Path: home},
		{Role: "hf-cache", Path: cmp.Or(env("HF_HUB_CACHE"), env("HF_HOME"), filepath.Join(cache, "huggingface"))},
		{Role: "triton-cache", Path: cmp.Or(env("TRITON_CACHE_DIR"), filepath.Join(cmp.Or(env("TRITON_HOME"), home), ".triton"))},
		{Role: "inductor-cache", Path: env("TORCHINDUCTOR_CACHE_DIR")},
		{Role: "torch-extensions", Path: machine.TorchExtensions(o.Getenv, o.WorkDir, home)},
	}
	for i := range all {
		if strings.HasPrefix(all[i].Path, "~/") {
			all[i].Path = filepath.Join(home, all[i].Path[2:]) // huggingface_hub expands "~"
		}
	}
	for _, role := range slices.Sorted(maps.Keys(o.Places)) {
		path := o.Places[role]
		if !filepath.IsAbs(path) { // DeepSpeed reads the path in this way, without expanding "~"
			path = filepath.Join(o.WorkDir, path)
		}
		all = append(all, facts.Place{Role: role, Path: path})
	}
	var known []facts.Place
	for _, place := range all {
		if filepath.IsAbs(place.Path) { // without a home or working directory, a relative path cannot be checked
			place.Path = filepath.Clean(place.Path)
			known = append(known, place)
		}
	}
	return known
}

const (
	// listingLimit is the time limit for listing all places.
	listingLimit = 1 * time.Second
	// listingEntries is how many entries a directory may have to be listed, including one level
	// below. A checkpoint and the indices of a data set have fewer entries; the data itself has
	// more.
	listingEntries = 512
)

// listed lists the roles of places whose content should be the same on all nodes.
var listed = []string{facts.RoleIndexCache, facts.RoleTokenized, facts.RoleCheckpoint, facts.RoleResume}

// list sets the listings of the places that exist. It sets none for a place that does not answer in
// time.
func list(ctx context.Context, o machine.Options, places []facts.Place) {
	ctx, cancel := context.WithTimeout(ctx, listingLimit)
	defer cancel()
	for i := range places {
		if place := &places[i]; place.Exists && place.Problem == "" && slices.Contains(listed, place.Role) {
			listing, err := machine.Within(ctx, func() (string, error) { return listing(o.At(place.Path)) })
			if err == nil {
				place.Listing = listing
			}
		}
	}
}

var errTooMuch = errors.New("too many entries to list")

// listing returns a digest of the names and sizes in a directory and one level below.
func listing(dir string) (string, error) {
	sum := sha256.New()
	left := listingEntries
	if err := listInto(sum, dir, &left, true); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func listInto(sum hash.Hash, dir string, left *int, deeper bool) error {
	entries, err := machine.ReadDir(dir, *left+1)
	if err != nil {
		return err
	}
	if *left -= len(entries); *left < 0 {
		return errTooMuch
	}
	for _, entry := range entries {
		size := int64(0)
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		fmt.Fprintf(sum, "%q %t %d\n", entry.Name(), entry.IsDir(), size)
		if entry.IsDir() && deeper {
			if err := listInto(sum, filepath.Join(dir, entry.Name()), left, false); err != nil {
				return err
			}
		}
	}
	return nil
}
