// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"path/filepath"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
)

// movedBy are the variables that send to another directory what a launch would
// write to a place, the first that is set.
var movedBy = map[string][]string{
	"tmp":              {"TMPDIR"},
	"hf-cache":         {"HF_HUB_CACHE", "HF_HOME"},
	"triton-cache":     {"TRITON_CACHE_DIR"},
	"inductor-cache":   {"TORCHINDUCTOR_CACHE_DIR"},
	"torch-extensions": {"TORCH_EXTENSIONS_DIR"},
}

// Moved is whether the launch's exports lead away from a place: the probe looked where its
// own session's environment led it.
func Moved(view checks.View, node *facts.Node, place *facts.Place) bool {
	settings := Env(view, node)
	for _, name := range movedBy[place.Role] {
		if setting := settings.Get(name); setting.Value != "" {
			_, isExported := Exported(view, name)
			return isExported && filepath.Clean(setting.Value) != place.Path
		}
	}
	return false
}

// Cache is a directory of a node that ranks compile into while they run.
type Cache struct {
	*facts.Place
	Variable string // that moves it
}

// Caches are those that the ranks of a node will compile into, as far as that is known: Triton
// on GPUs, where it is installed; Inductor, where somebody has moved it out of the temporary
// directory; and the ops of DeepSpeed that the installed package does not bring.
func Caches(view checks.View, node *facts.Node) (caches []Cache) {
	for i := range node.Disk.Places {
		place := &node.Disk.Places[i]
		if compiles(view, node, place.Role) && !Moved(view, node, place) {
			caches = append(caches, Cache{place, movedBy[place.Role][0]})
		}
	}
	return caches
}

func compiles(view checks.View, node *facts.Node, role string) bool {
	installed := func(name string) bool { return node.Python == nil || node.Python.Packages[name] != "" }
	switch role {
	case "triton-cache":
		return UsesNCCL(view) && installed("triton")
	case "inductor-cache":
		return installed("torch")
	case "torch-extensions":
		return slices.ContainsFunc(view.Launch.Ops(), func(op string) bool { return node.Python == nil || !node.Python.Ops[op] })
	}
	return false
}

// OverNFS is whether a place is on NFS, where a lock of flock may hold on one machine alone and
// what another has just renamed or removed is still believed in for seconds.
func OverNFS(place *facts.Place) bool { return place.FSType == "nfs" || place.FSType == "nfs4" }

// Crowd are the nodes that compile into one directory over NFS.
type Crowd struct {
	Cache
	Nodes []*facts.Node
}

// CrowdedCaches are the directories over NFS that more than one of the nodes compiles into.
func CrowdedCaches(view checks.View) (crowds []Crowd) {
	for _, node := range view.Nodes {
		if node.Disk == nil {
			continue
		}
		for _, cache := range Caches(view, node) {
			if !OverNFS(cache.Place) {
				continue
			}
			at := slices.IndexFunc(crowds, func(c Crowd) bool { return c.Role == cache.Role && c.Path == cache.Path && c.Source == cache.Source })
			if at < 0 {
				at, crowds = len(crowds), append(crowds, Crowd{Cache: cache})
			}
			crowds[at].Nodes = append(crowds[at].Nodes, node)
		}
	}
	return slices.DeleteFunc(crowds, func(c Crowd) bool { return len(c.Nodes) < 2 })
}

// Elsewhere is a directory on the nodes' own disks for a crowded cache, by the user who
// launches, as other people's would be in the way; "" where no such disk was seen on all of them.
func (c Crowd) Elsewhere() string {
	user := ""
	if host := c.Nodes[0].Host; host != nil && host.User != "root" {
		user = "-" + host.User
	}
	for _, role := range []string{"var-tmp", "tmp"} {
		dir := ""
		isOwn := func(node *facts.Node) bool {
			at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool { return p.Role == role })
			if at < 0 {
				return false
			}
			place := node.Disk.Places[at]
			isSame := dir == "" || dir == place.Path
			dir = place.Path
			return isSame && place.Writable && !place.ReadOnly && !place.NoExec && place.Problem == "" && !slices.Contains(RemoteFS, place.FSType)
		}
		if !slices.ContainsFunc(c.Nodes, func(n *facts.Node) bool { return !isOwn(n) }) {
			return filepath.Join(dir, strings.TrimSuffix(c.Role, "-cache")+user)
		}
	}
	return ""
}
