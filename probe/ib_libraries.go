package probe

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
)

// rdmaNames are what RDMA takes: verbs, and the half of Mellanox's driver that lives
// in programs. NCCL asks the loader for the first, and it for the second.
var rdmaNames = []string{"libibverbs.so.1", "libmlx5.so.1"}

// pluginName is a library that NCCL takes for its network or its tuner, by the name
// that it asks the loader for: one with a version behind it is never asked for.
var pluginName = regexp.MustCompile(`^libnccl-(net|tuner)(-[^/]+)?\.so$`)

// rdmaLibraries are those that there are, each where the loader finds it first; never
// nil.
func rdmaLibraries(o options, libraryPath string) []facts.RDMALibrary {
	found := []facts.RDMALibrary{}
	for _, name := range append(slices.Clone(rdmaNames), pluginNames(o, libraryPath)...) {
		for _, c := range loaderOrder(o, libraryPath, name) {
			if exists(o.at(c.path)) {
				found = append(found, facts.RDMALibrary{Name: name, Path: c.path})
				break
			}
		}
	}
	return found
}

// pluginNames are NCCL's plugins in the directories that the loader searches, sorted.
func pluginNames(o options, libraryPath string) []string {
	var names []string
	for _, c := range loaderOrder(o, libraryPath, "") { // of no name: the directories themselves
		entries, _ := os.ReadDir(o.at(c.path)) // none, where the directory is not there
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), "libnccl-") && pluginName.MatchString(entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	for _, entry := range loaderCacheEntries(o.at("/etc/ld.so.cache"), pluginName.MatchString) {
		names = append(names, entry.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
