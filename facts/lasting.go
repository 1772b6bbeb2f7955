// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// Momentary are the sections that tell of one moment or of one launch only, as their tags
// in Facts say: what the nodes tried of each other, how their clocks stood, the files that
// the launch names, which are the user's work and rightly change, and how its names
// resolve. Drift compares none of them, and a normalized snapshot has none.
var Momentary = func() []Section {
	return slices.DeleteFunc(Sections(), func(section Section) bool {
		return fieldOf[section].Tag.Get("lasting") != "no"
	})
}()

// PlaceWorkDir is the Place.Role of the directory that the launch works in.
const PlaceWorkDir = "workdir"

// Lasting is the facts as JSON's maps and lists, without those that change by
// themselves or with the launch: nothing volatile, no section of Momentary, nothing of
// the working directory. The same node gives the same at any time, until somebody changes
// it. What is left out is not there at all, so that nobody takes a zero for a value; read
// back into Facts it is zero.
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

// LastingOfHead is what drift compares of the launching machine: what it launches with, and
// the id by which it is known for the same machine. What else is there, such as the shell's
// variables, is that of whoever launches.
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

// WorkDir is where the launch works on the node, "" for not seen.
func (f *Facts) WorkDir() string {
	if f.Files == nil {
		return ""
	}
	return f.Files.WorkDir.Path
}

// LaunchedFrom are the directories that a launch may have its interpreter begin in: where it
// works, or home, where a login begins and stays if that directory is not there.
func (f *Facts) LaunchedFrom() (directories []string) {
	if f.Host != nil {
		directories = append(directories, f.Host.Home)
	}
	return append(directories, f.WorkDir())
}

// InstalledPath is sys.path without the directories that launches were started from: the
// interpreter puts its own first, and launches come from many.
func (p *Python) InstalledPath(launched ...string) []string {
	return slices.DeleteFunc(slices.Clone(p.SysPath), func(directory string) bool { return slices.Contains(launched, directory) })
}

// withoutContainers takes out of the interfaces what follows the containers that run.
func withoutContainers(net map[string]any, interfaces []Interface) {
	list, _ := net["interfaces"].([]any)
	for at, entry := range list {
		if of, is := entry.(map[string]any); is && interfaces[at].ForContainers() {
			of["addresses"] = interfaces[at].IPv4() // an IPv6 one is made of the MAC
			for _, follows := range []string{"running", "speed", "mac"} {
				delete(of, follows)
			}
		}
	}
}

// asJSON returns facts as JSON's maps and lists, with all the digits of numbers.
func asJSON(f Facts) (tree map[string]any) {
	text, err := json.Marshal(f)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := cmp.Or(err, decoder.Decode(&tree)); err != nil {
		panic("facts: " + err.Error()) // plain values always encode
	}
	return tree
}
