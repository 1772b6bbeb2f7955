// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"path/filepath"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
)

// movedBy lists, for each place to which a launch writes, the variables that move the place to
// another directory. The first variable that is set wins.
var movedBy = map[string][]string{
	"tmp":              {"TMPDIR"},
	"hf-cache":         {"HF_HUB_CACHE", "HF_HOME"},
	"triton-cache":     {"TRITON_CACHE_DIR"},
	"inductor-cache":   {"TORCHINDUCTOR_CACHE_DIR"},
	"torch-extensions": {"TORCH_EXTENSIONS_DIR"},
}

// Moved reports whether the launch's exports move a place to another directory. The probe did not
// see that directory, because it used the environment of its own session.
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

// Cache is a directory on a node in which ranks compile code while they run.
type Cache struct {
	*facts.Place
	Variable string // the variable that moves the directory
}

// Caches returns the known directories in which the ranks of a node will compile. It includes
// Triton's directory on GPUs if Triton is installed. It includes Inductor's directory if that was
// moved out of the temporary directory. It includes DeepSpeed's directory for ops that the
// installed package lacks.
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

// OverNFS reports whether a place is on NFS. On NFS, flock may lock only within one machine, and a
// client may still see renamed or removed files for seconds.
func OverNFS(place *facts.Place) bool { return place.FSType == "nfs" || place.FSType == "nfs4" }

// Crowd is a directory on NFS with the nodes that compile in it.
type Crowd struct {
	Cache
	Nodes []*facts.Node
}

// CrowdedCaches returns the NFS directories in which more than one node compiles.
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

// Elsewhere returns a directory on the nodes' local disks that can replace a crowded cache. The
// directory contains the user's name, so users do not collide. It returns "" if not all of the
// nodes are known to have such a disk.
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
			return isSame && place.Writable && !place.ReadOnly && !place.NoExec && place.Problem == "" && !place.Remote()
		}
		if !slices.ContainsFunc(c.Nodes, func(n *facts.Node) bool { return !isOwn(n) }) {
			return filepath.Join(dir, strings.TrimSuffix(c.Role, "-cache")+user)
		}
	}
	return ""
}
