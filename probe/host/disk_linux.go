// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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

// places are the directories that a launch writes to, by the rules of whoever
// writes there: huggingface_hub (constants.py), Triton (runtime/cache.py), torch
// (_inductor/runtime/cache_dir_utils.py, which takes the temporary directory where nobody names
// another; utils/cpp_extension.py), DeepSpeed where the configuration has it offload, and the script
// where its command says.
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
		{Role: "torch-extensions", Path: machine.TorchExtensions(o, home)},
	}
	for i := range all {
		if strings.HasPrefix(all[i].Path, "~/") {
			all[i].Path = filepath.Join(home, all[i].Path[2:]) // huggingface_hub expands it
		}
	}
	for _, role := range slices.Sorted(maps.Keys(o.Places)) {
		path := o.Places[role]
		if !filepath.IsAbs(path) { // as DeepSpeed takes it, a "~" included
			path = filepath.Join(o.WorkDir, path)
		}
		all = append(all, facts.Place{Role: role, Path: path})
	}
	var known []facts.Place
	for _, place := range all {
		if filepath.IsAbs(place.Path) { // no home, no working directory: nothing to look at
			place.Path = filepath.Clean(place.Path)
			known = append(known, place)
		}
	}
	return known
}
