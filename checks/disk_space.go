package checks

import (
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

var diskSpace = Check{
	ID:       "disk-space",
	Title:    "there is space where the launch writes",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Doc: "Looks at the file systems below the working directory, the temporary directory, home and the caches of Hugging Face, Triton and torch " +
		"extensions: free space (policy disk_free), free inodes, whether we may write, and whether compiled kernels may run. Trouble with the working or the temporary directory " +
		"fails the check, with the others it is a warning. Several directories on one file system are one finding.",
	WouldSee: "OSError: [Errno 28] No space left on device",
	Run: func(v View) []Finding {
		var findings []Finding
		for _, node := range v.Nodes {
			for _, group := range fileSystems(usedPlaces(v, node)) {
				if finding, found := judgePlaces(node, group, v.Policy.DiskFree); found {
					findings = append(findings, finding)
				}
			}
		}
		return findings
	},
}

// movedBy are the variables that send to another directory what a launch would
// write to a place, the first that is set.
var movedBy = map[string][]string{
	"tmp":              {"TMPDIR"},
	"hf-cache":         {"HF_HUB_CACHE", "HF_HOME"},
	"triton-cache":     {"TRITON_CACHE_DIR"},
	"torch-extensions": {"TORCH_EXTENSIONS_DIR"},
}

// usedPlaces leaves out the places that the launch's exports move elsewhere:
// the probe looked where its own session's environment led it.
func usedPlaces(v View, node *facts.Node) []facts.Place {
	settings := rankEnv(v, node)
	return slices.DeleteFunc(slices.Clone(node.Disk.Places), func(place facts.Place) bool {
		if strings.HasPrefix(place.Role, "offload-") {
			return true // offload-path's
		}
		for _, name := range movedBy[place.Role] {
			if setting, set := settings[name]; set {
				_, isExported := exported(v, name)
				return isExported && path.Clean(setting.Value) != place.Path
			}
		}
		return false
	})
}

// fileSystems groups places by what they lie on and whether they can be used.
func fileSystems(places []facts.Place) [][]facts.Place {
	var groups [][]facts.Place
	for _, place := range places {
		i := slices.IndexFunc(groups, func(g []facts.Place) bool {
			return g[0].Source == place.Source && g[0].Free == place.Free && g[0].Problem == place.Problem &&
				g[0].Writable == place.Writable && g[0].ReadOnly == place.ReadOnly && g[0].NoExec == place.NoExec
		})
		if i < 0 {
			groups = append(groups, []facts.Place{place})
			continue
		}
		groups[i] = append(groups[i], place)
	}
	return groups
}
