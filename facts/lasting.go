// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// Momentary lists the sections that describe only one moment or one launch, according to their tags
// in Facts. They hold what the nodes tried with each other, the state of the nodes' clocks, and how
// the launch's names resolve. They also hold the files that the launch names, which users change
// all the time. Drift compares none of these sections, and a normalized snapshot contains none.
var Momentary = func() []Section {
	return slices.DeleteFunc(Sections(), func(section Section) bool {
		return fieldOf[section].Tag.Get("lasting") != "no"
	})
}()

// PlaceWorkDir is the Place.Role of the launch's working directory.
const PlaceWorkDir = "workdir"

// Lasting returns the facts as JSON maps and lists, without the facts that change by themselves or
// with the launch. It leaves out volatile facts, the sections in Momentary and the working
// directory.
//
// A node gives the same result at any time until somebody changes the node. Facts that Lasting
// leaves out are absent from the result, so that a zero is not read as a value. If the result is
// read back into Facts, these facts are zero.
func (f *Facts) Lasting() map[string]any {
	most := *f
	if f.Disk != nil {
		disk := *f.Disk
		disk.Places = slices.DeleteFunc(slices.Clone(disk.Places), func(p Place) bool { return p.Role == PlaceWorkDir })
		most.Disk = &disk
	}
	if f.Python != nil {
		python := *f.Python
		python.SysPath = f.Python.InstalledPath(f.LaunchedFrom()...)
		most.Python = &python
	}
	if f.Net != nil {
		net := *f.Net
		net.Interfaces = slices.DeleteFunc(slices.Clone(net.Interfaces), Interface.Passing)
		most.Net = &net
	}
	tree := asJSON(most)
	_, fields := plan()
	for _, gone := range fields {
		if !gone.lasts {
			eachHolder(tree, gone.names, func(holder map[string]any, name string) { delete(holder, name) })
		}
	}
	if net, seen := tree[string(SectionNet)].(map[string]any); seen {
		withoutContainers(net, most.Net.Interfaces)
	}
	return tree
}

// LastingOfHead returns the facts of the launching machine that drift compares: its launcher, and
// the machine ID that identifies it. Everything else on that machine, such as the shell's
// variables, belongs to the user who launches.
func (f *Facts) LastingOfHead() map[string]any {
	all, tree := f.Lasting(), map[string]any{}
	if launcher, seen := all[string(SectionLauncher)]; seen {
		tree[string(SectionLauncher)] = launcher
	}
	if f.Host != nil && f.Host.MachineID != "" {
		tree[string(SectionHost)] = map[string]any{"machine_id": f.Host.MachineID}
	}
	return tree
}

// WorkDir returns the launch's working directory on the node, "" if unknown.
func (f *Facts) WorkDir() string {
	if f.Files == nil {
		return ""
	}
	return f.Files.WorkDir.Path
}

// LaunchedFrom returns the directories in which a launch may start its interpreter. These are the
// working directory and the home directory. A login stays in the home directory if the working
// directory does not exist.
func (f *Facts) LaunchedFrom() (directories []string) {
	if f.Host != nil {
		directories = append(directories, f.Host.Home)
	}
	return append(directories, f.WorkDir())
}

// InstalledPath returns sys.path without the directories in launched. The interpreter puts its
// start directory first, and launches start in many directories.
func (p *Python) InstalledPath(launched ...string) []string {
	return slices.DeleteFunc(slices.Clone(p.SysPath), func(directory string) bool { return slices.Contains(launched, directory) })
}

// withoutContainers removes all facts from the interfaces that depend on which containers run.
func withoutContainers(net map[string]any, interfaces []Interface) {
	list, _ := net["interfaces"].([]any)
	for at, entry := range list {
		if of, ok := entry.(map[string]any); ok && interfaces[at].ForContainers() {
			of["addresses"] = interfaces[at].IPv4() // IPv6 addresses are left out because they are derived from the MAC
			for _, follows := range []string{"running", "speed", "mac"} {
				delete(of, follows)
			}
		}
	}
}

// asJSON returns facts as JSON maps and lists. Numbers keep all their digits.
func asJSON(f Facts) (tree map[string]any) {
	text, err := json.Marshal(f)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := cmp.Or(err, decoder.Decode(&tree)); err != nil {
		panic("facts: " + err.Error()) // encoding plain values never fails
	}
	return tree
}
